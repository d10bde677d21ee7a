DROP TABLE "{{schema}}"."leader";
