DROP DOMAIN {{.Function "kind_name"}};
DROP DOMAIN {{.Function "queue_name"}};
DROP DOMAIN {{.Function "priority"}};
DROP DOMAIN {{.Function "progress"}};
