package planned;

import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsProjectionPushDown;
import org.apache.flink.table.types.DataType;

/** A table of which only the columns are read that queries need. */
final class PickedRowsTable extends RowsTable implements SupportsProjectionPushDown {
    PickedRowsTable(String path, String changelog, DataType type) {
        super(path, changelog, type);
    }

    @Override
    public boolean supportsNestedProjection() {
        return false;
    }

    @Override
    public void applyProjection(int[][] fields, DataType produced) {
        type = produced;
        picked = new int[fields.length];
        for (int n = 0; n < fields.length; n++) {
            picked[n] = fields[n][0];
        }
    }

    @Override
    public DynamicTableSource copy() {
        PickedRowsTable made = new PickedRowsTable(path, changelog, type);
        made.picked = picked;
        return made;
    }
}
