package planned;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.DataType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.RowKind;

/** A table whose changes are the lines of a file. */
class RowsTable implements ScanTableSource {
    final String path;
    final String changelog;
    DataType type;
    int[] picked;

    RowsTable(String path, String changelog, DataType type) {
        this.path = path;
        this.changelog = changelog;
        this.type = type;
        this.picked = IntStream.range(0, type.getLogicalType().getChildren().size()).toArray();
    }

    @Override
    public ChangelogMode getChangelogMode() {
        switch (changelog) {
            case "append":
                return ChangelogMode.insertOnly();
            case "upsert":
                return ChangelogMode.newBuilder()
                        .addContainedKind(RowKind.INSERT)
                        .addContainedKind(RowKind.UPDATE_AFTER)
                        .addContainedKind(RowKind.DELETE)
                        .build();
            default:
                return ChangelogMode.all();
        }
    }

    @Override
    public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
        DataStructureConverter converter = context.createDataStructureConverter(type);
        List<LogicalType> columns = new ArrayList<>(type.getLogicalType().getChildren());
        InternalTypeInfo<RowData> information = InternalTypeInfo.of(type.getLogicalType());
        return new DataStreamScanProvider() {
            @Override
            public DataStream<RowData> produceDataStream(ProviderContext provider, StreamExecutionEnvironment env) {
                RowsSource.PLANNED.incrementAndGet();
                DataStreamSource<RowData> stream =
                        env.addSource(new RowsSource(path, columns, picked, converter), "rows", information);
                stream.setParallelism(1);
                provider.generateUid("rows").ifPresent(stream::uid);
                return stream;
            }

            @Override
            public boolean isBounded() {
                return false;
            }
        };
    }

    @Override
    public DynamicTableSource copy() {
        return new RowsTable(path, changelog, type);
    }

    @Override
    public String asSummaryString() {
        return "rows of " + path;
    }
}
