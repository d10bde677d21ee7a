DROP TABLE "{{schema}}"."alarms";
