package continuing;

import java.time.Instant;
import java.util.List;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** Queries whose operators keep state, under the uid hashes that Flink makes of the job's graph: it is always the same. */
final class Queries {
    static final String[][] ALL = {
        {
            "group",
            "SELECT product, COUNT(*), SUM(amount), MAX(number), MAX(price) FROM orders GROUP BY product"
        },
        {"distinct", "SELECT product, COUNT(DISTINCT customer) FROM orders GROUP BY product"},
        {
            "top",
            "SELECT product, amount, number FROM (SELECT *, ROW_NUMBER() OVER "
                    + "(PARTITION BY product ORDER BY amount DESC) AS r FROM orders) WHERE r <= 2"
        },
        {
            "last",
            "SELECT customer, product, number FROM (SELECT *, ROW_NUMBER() OVER "
                    + "(PARTITION BY customer ORDER BY arrived DESC) AS r FROM orders) WHERE r = 1"
        },
        {
            "window",
            "SELECT customer, window_start, SUM(amount), COUNT(*) FROM "
                    + "TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ordered), INTERVAL '1' MINUTE)) "
                    + "GROUP BY customer, window_start, window_end"
        },
    };

    private static final TypeInformation<Row> ORDER =
            Types.ROW_NAMED(
                    new String[] {"customer", "product", "amount", "number", "price", "ordered"},
                    Types.LONG,
                    Types.STRING,
                    Types.DOUBLE,
                    Types.INT,
                    Types.BIG_DEC,
                    Types.INSTANT);

    private Queries() {}

    /** All queries over these orders; what they tell goes to {@link Told}. */
    static void job(StreamExecutionEnvironment env, List<Row> orders, boolean ending) {
        DataStream<Row> feed = env.addSource(new Orders(orders, ending), ORDER).setParallelism(1).uid("feed");
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().set("table.local-time-zone", "UTC");
        Schema schema =
                Schema.newBuilder()
                        .column("customer", "BIGINT NOT NULL")
                        .column("product", "STRING")
                        .column("amount", "DOUBLE")
                        .column("number", "INT")
                        .column("price", "DECIMAL(20, 2)")
                        .column("ordered", "TIMESTAMP_LTZ(3)")
                        .columnByExpression("arrived", "PROCTIME()")
                        .watermark("ordered", "ordered - INTERVAL '1' SECOND")
                        .build();
        tables.createTemporaryView("orders", feed, schema);
        for (String[] query : ALL) {
            String name = query[0];
            tables.toChangelogStream(tables.sqlQuery(query[1]))
                    .map(new Told(name))
                    .returns(Types.STRING)
                    .uid("told-" + name);
        }
    }

    static Row order(long customer, String product, Double amount, int number, String price, long ordered) {
        return Row.of(
                customer,
                product,
                amount,
                number,
                price == null ? null : new java.math.BigDecimal(price),
                Instant.ofEpochMilli(ordered));
    }
}
