package planned;

import fixtures.LegacySource;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.flink.table.connector.source.DynamicTableSource.DataStructureConverter;
import org.apache.flink.table.connector.RuntimeConverter;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.Row;
import org.apache.flink.types.RowKind;

/** Emits the lines of a file, slowly enough for watermarks to come between them where a line says so, and idles. */
public class RowsSource extends LegacySource<RowData> {
    /** How many sources the job has, and how many have emitted all their rows; static, for jobs run in the JVM that asks. */
    static final AtomicInteger PLANNED = new AtomicInteger();

    static final AtomicInteger ENDED = new AtomicInteger();

    private final String path;
    private final List<LogicalType> columns;
    private final int[] picked;
    private final DataStructureConverter converter;
    private volatile boolean running = true;

    /** Of the values of a line those at {@code picked}, whose types are {@code columns}. */
    RowsSource(String path, List<LogicalType> columns, int[] picked, DataStructureConverter converter) {
        this.path = path;
        this.columns = columns;
        this.picked = picked;
        this.converter = converter;
    }

    @Override
    public void run(SourceContext<RowData> context) throws Exception {
        converter.open(RuntimeConverter.Context.create(RowsSource.class.getClassLoader()));
        for (String line : Files.readAllLines(Paths.get(path))) {
            if (line.equals("wait")) {
                Thread.sleep(600);
                continue;
            }
            RowData row = (RowData) converter.toInternal(row(line.split("\t", -1)));
            synchronized (context.getCheckpointLock()) {
                context.collect(row);
            }
        }
        Thread.sleep(600);
        ENDED.incrementAndGet();
        while (running) {
            Thread.sleep(20);
        }
    }

    /** A line is the kind of change and the values, divided by tabs; \N is null. */
    private Row row(String[] parts) {
        Row row = new Row(kind(parts[0]), columns.size());
        for (int n = 0; n < columns.size(); n++) {
            row.setField(n, value(columns.get(n), parts[picked[n] + 1]));
        }
        return row;
    }

    private static RowKind kind(String text) {
        for (RowKind kind : RowKind.values()) {
            if (kind.shortString().equals(text)) {
                return kind;
            }
        }
        throw new IllegalArgumentException(text);
    }

    private static Object value(LogicalType type, String text) {
        if (text.equals("\\N")) {
            return null;
        }
        switch (type.getTypeRoot()) {
            case TINYINT:
                return Byte.valueOf(text);
            case SMALLINT:
                return Short.valueOf(text);
            case INTEGER:
                return Integer.valueOf(text);
            case BIGINT:
                return Long.valueOf(text);
            case FLOAT:
                return Float.valueOf(text);
            case DOUBLE:
                return Double.valueOf(text);
            case BOOLEAN:
                return Boolean.valueOf(text);
            case DATE:
                return LocalDate.parse(text);
            case VARBINARY:
                return text.getBytes(StandardCharsets.UTF_8);
            case DECIMAL:
                return new BigDecimal(text);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
                return LocalDateTime.parse(text);
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                return Instant.parse(text);
            default:
                return text;
        }
    }

    @Override
    public void cancel() {
        running = false;
    }
}
