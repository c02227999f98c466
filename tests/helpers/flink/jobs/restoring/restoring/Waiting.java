package restoring;

import fixtures.LegacySource;

/** Emits nothing and ends when everything is read back; then event time ends, and event-time timers fire. */
public final class Waiting<T> extends LegacySource<T> {
    private volatile boolean running = true;

    @Override
    public void run(SourceContext<T> context) throws Exception {
        while (running && !Findings.settled()) {
            Thread.sleep(5);
        }
    }

    @Override
    public void cancel() {
        running = false;
    }
}
