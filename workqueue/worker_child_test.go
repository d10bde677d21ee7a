package workqueue_test

// childEnv makes the test binary a worker process.
const childEnv = "TXWORK_TEST_CHILD"

func runChild() int { return 0 }
