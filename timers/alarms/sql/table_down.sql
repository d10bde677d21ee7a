DROP TABLE {{.Table}};
