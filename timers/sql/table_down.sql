DROP FUNCTION {{.Schema}}."timers_rearm"();
DROP FUNCTION {{.Schema}}."timers_disarm"();
