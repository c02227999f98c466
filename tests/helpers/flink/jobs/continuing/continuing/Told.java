package continuing;

import fixtures.Json;
import java.util.ArrayList;
import java.util.List;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.types.Row;

/** Notes what a query tells: its name, the kind of change, the row. Static: the job runs in this JVM. */
public class Told implements MapFunction<Row, String> {
    private static final List<String> LINES = new ArrayList<>();

    private final String query;

    Told(String query) {
        this.query = query;
    }

    @Override
    public String map(Row row) {
        Object[] values = new Object[row.getArity()];
        for (int n = 0; n < values.length; n++) {
            values[n] = row.getField(n);
        }
        String line =
                Json.of(
                        Json.object(
                                "query", query,
                                "change", row.getKind().shortString(),
                                "row", java.util.Arrays.asList(values)));
        synchronized (LINES) {
            LINES.add(line);
        }
        return line;
    }

    /** All that was told since the last time. */
    static List<String> taken() {
        synchronized (LINES) {
            List<String> lines = new ArrayList<>(LINES);
            LINES.clear();
            return lines;
        }
    }
}
