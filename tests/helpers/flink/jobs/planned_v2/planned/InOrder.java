package planned;

import org.apache.flink.table.annotation.ArgumentHint;
import org.apache.flink.table.annotation.ArgumentTrait;
import org.apache.flink.table.annotation.StateHint;
import org.apache.flink.table.functions.ProcessTableFunction;
import org.apache.flink.types.Row;

/** Numbers the rows of each partition, in the order that the query asks for. */
public final class InOrder extends ProcessTableFunction<Long> {
    /** The rows that have come. */
    public static final class Count {
        public long n = 0L;
    }

    public void eval(
            @StateHint(name = "count") Count count,
            @ArgumentHint(
                            name = "input",
                            value = {ArgumentTrait.SET_SEMANTIC_TABLE, ArgumentTrait.REQUIRE_ON_TIME})
                    Row input) {
        count.n++;
        collect(count.n);
    }
}
