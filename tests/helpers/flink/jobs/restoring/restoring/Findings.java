package restoring;

import fixtures.Json;
import java.util.ArrayList;
import java.util.List;

/** What one restored job found. Static: the job runs in the JVM that writes its findings down. */
final class Findings {
    private static final List<String> LINES = new ArrayList<>();
    private static String wanted;
    private static int unopened;
    private static long waiting;
    private static boolean held;

    private Findings() {}

    /**
     * @param subtasks how many subtasks will call {@link #opened}.
     * @param backend the state backend they must find themselves on.
     * @param hold no timer may fire and no input end before {@link #letGo}.
     */
    static synchronized void begin(int subtasks, String backend, boolean hold) {
        LINES.clear();
        wanted = backend.equals("hashmap") ? "heap" : backend;
        unopened = subtasks;
        waiting = 0;
        held = hold;
    }

    /** Fails unless keyed state lies in the backend that the run is about, for changelogs behind Flink's wrapper. */
    static synchronized void backend(Object keyed) throws ReflectiveOperationException {
        Object inner = keyed;
        if (keyed.getClass().getName().contains(".changelog.")) {
            java.lang.reflect.Field field = keyed.getClass().getDeclaredField("val$keyedStateBackend");
            field.setAccessible(true);
            inner = field.get(keyed);
            if (inner.getClass().getSimpleName().equals("ChangelogKeyedStateBackend")) {
                field = inner.getClass().getDeclaredField("keyedStateBackend");
                field.setAccessible(true);
                inner = field.get(inner);
            }
        }
        String name = inner.getClass().getSimpleName();
        if (!name.toLowerCase(java.util.Locale.ROOT).startsWith(wanted)) {
            throw new IllegalStateException("the keyed state lies in a " + name + ", not in " + wanted);
        }
    }

    /** A subtask has read its state back; this many processing-time timers of it are still to fire. */
    static synchronized void opened(long timers) {
        unopened--;
        waiting += timers;
    }

    static synchronized boolean allOpened() {
        return unopened == 0;
    }

    static synchronized void letGo() {
        held = false;
    }

    static synchronized boolean isHeld() {
        return held;
    }

    static synchronized void firedProcessingTime() {
        waiting--;
    }

    /** Whether the input may end. */
    static synchronized boolean settled() {
        return !held && unopened == 0 && waiting == 0;
    }

    static synchronized List<String> lines() {
        return new ArrayList<>(LINES);
    }

    static void keyed(String uid, String state, String kind, Object key, Object namespace, Object value) {
        add("uid", uid, "state", state, "kind", kind, "key", key, "namespace", namespace, "value", value);
    }

    static void expiring(
            String uid, String state, String kind, Object key, Object namespace, Object value, Object access) {
        Object[] pairs = {"uid", uid, "state", state, "kind", kind, "key", key, "namespace", namespace};
        Object[] all = java.util.Arrays.copyOf(pairs, pairs.length + 4);
        all[pairs.length] = "value";
        all[pairs.length + 1] = value;
        all[pairs.length + 2] = "last_access";
        all[pairs.length + 3] = access;
        add(all);
    }

    static void operator(String uid, String state, String kind, int subtask, Object key, Object value) {
        add("uid", uid, "state", state, "kind", kind, "subtask", subtask, "key", key, "value", value);
    }

    /** The state that a hook on the JobManager is restored with; null if the snapshot has none. */
    static void master(String hook, Object value) {
        add("uid", null, "state", hook, "kind", "master", "key", null, "namespace", null, "value", value);
    }

    private static synchronized void add(Object... pairs) {
        LINES.add(Json.of(Json.object(pairs)));
    }
}
