package continuing;

import fixtures.LegacySource;
import java.util.List;
import org.apache.flink.types.Row;

/** Emits rows, and then ends or idles until it is cancelled. */
public class Orders extends LegacySource<Row> {
    /** Whether all rows have been emitted; static, for the job runs in the JVM that asks. */
    static volatile boolean emitted;

    private final List<Row> orders;
    private final boolean ending;
    private volatile boolean running = true;

    Orders(List<Row> orders, boolean ending) {
        this.orders = orders;
        this.ending = ending;
    }

    @Override
    public void run(SourceContext<Row> context) throws Exception {
        for (Row order : orders) {
            synchronized (context.getCheckpointLock()) {
                context.collect(order);
            }
        }
        emitted = true;
        while (running && !ending) {
            Thread.sleep(20);
        }
    }

    @Override
    public void cancel() {
        running = false;
    }
}
