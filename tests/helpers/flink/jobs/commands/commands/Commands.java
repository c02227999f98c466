package commands;

import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;

/** What programs share that run jobs and take commands for them. */
public final class Commands {
    private Commands() {}

    /** Take a snapshot, again and again while tasks start: there are no snapshots then. */
    public static String awaited(Callable<String> snapshot) throws Exception {
        for (int attempt = 0; true; attempt++) {
            try {
                return snapshot.call();
            } catch (ExecutionException refused) {
                String why = refused.toString();
                boolean early = why.contains("required tasks are currently running") || why.contains("initializing");
                if (attempt == 100 || !early) {
                    throw refused;
                }
                Thread.sleep(200);
            }
        }
    }

    /** Return a problem and all its causes as one text. */
    public static String cause(Throwable problem) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = problem; each != null; each = each.getCause()) {
            text.append(text.length() == 0 ? "" : ": ").append(each);
        }
        return text.toString();
    }
}
