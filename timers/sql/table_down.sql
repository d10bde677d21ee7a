DROP FUNCTION {{.Schema}}."timers_rearm"();
DROP FUNCTION {{.Schema}}."timers_disarm"();
DROP FUNCTION {{.Schema}}."timers_cancel"(text[]);
DROP FUNCTION {{.Schema}}."timers_get"(text);
