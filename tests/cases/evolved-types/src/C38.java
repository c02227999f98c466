// States of every kind whose types change in the next version of the job, which is C38Later.
import java.time.Duration;
import java.util.*;
import org.apache.avro.Schema;
import org.apache.avro.generic.*;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public class C38 implements Lab.Job {
    public static class Address { public String street; public int zip; public Address() {} }

    public static class Order { public int id; public String customer; public Integer total; public String old; public Address address; public Order() {} }

    static final StateTtlConfig TTL = StateTtlConfig.newBuilder(Duration.ofDays(30000)).build();
    static final Schema SCHEMA = new Schema.Parser().parse("{\"type\":\"record\",\"name\":\"Click\",\"namespace\":\"acme\",\"fields\":[{\"name\":\"page\",\"type\":\"string\"},{\"name\":\"n\",\"type\":\"int\"},{\"name\":\"by\",\"type\":[\"null\",\"string\"]}]}");

    static Order order(long i) {
        Order o = new Order();
        o.id = (int) i - 5;
        o.customer = i % 4 == 0 ? null : "käufer " + i;
        o.total = i % 3 == 0 ? null : (int) i * 1000;
        o.old = "old " + i;
        if (i % 5 != 0) { o.address = new Address(); o.address.street = i % 2 == 0 ? "" : "Straße " + i; o.address.zip = 10000 + (int) i; }
        return o;
    }

    static GenericRecord click(long i) {
        GenericRecord r = new GenericData.Record(SCHEMA);
        r.put("page", "/p" + i);
        r.put("n", (int) i * 7);
        r.put("by", i % 2 == 0 ? null : "u" + i);
        return r;
    }

    static class Op extends KeyedProcessFunction<Long, Long, String> {
        ValueState<Order> order, timed;
        ListState<Order> list;
        MapState<String, Order> map;
        ReducingState<Integer> sum;
        ValueState<Tuple2<String, Integer>> pair;
        ValueState<String> phase;
        ValueState<GenericRecord> click;
        ValueState<Long> same;

        @Override public void open(OpenContext c) {
            order = getRuntimeContext().getState(new ValueStateDescriptor<>("order", Types.POJO(Order.class)));
            ValueStateDescriptor<Order> ttl = new ValueStateDescriptor<>("timed", Types.POJO(Order.class));
            ttl.enableTimeToLive(TTL);
            timed = getRuntimeContext().getState(ttl);
            list = getRuntimeContext().getListState(new ListStateDescriptor<>("list", Types.POJO(Order.class)));
            map = getRuntimeContext().getMapState(new MapStateDescriptor<>("map", Types.STRING, Types.POJO(Order.class)));
            sum = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("sum", Integer::sum, Types.INT));
            pair = getRuntimeContext().getState(new ValueStateDescriptor<>("pair", Types.TUPLE(Types.STRING, Types.INT)));
            phase = getRuntimeContext().getState(new ValueStateDescriptor<>("phase", Types.STRING));
            click = getRuntimeContext().getState(new ValueStateDescriptor<>("click", new GenericRecordAvroTypeInfo(SCHEMA)));
            same = getRuntimeContext().getState(new ValueStateDescriptor<>("same", Types.LONG));
        }

        @Override public void processElement(Long i, Context c, Collector<String> out) throws Exception {
            if (!Lab.READ) {
                order.update(order(i));
                timed.update(order(i + 1));
                for (long k = 0; k < i % 4; k++) list.add(order(i + k));
                for (long k = 0; k < i % 3; k++) map.put("k" + k, k == 1 ? null : order(i + k));
                sum.add((i.intValue() - 20) * 50_000_000);
                pair.update(Tuple2.of("p" + i, i.intValue()));
                phase.update(i % 2 == 0 ? "NEW" : "PAID");
                click.update(click(i));
                same.update(i);
                c.timerService().registerEventTimeTimer(1_000_000L + i);
            }
            Lab.line("op", "order", i, order.value());
            Lab.line("op", "timed", i, timed.value());
            List<Object> l = new ArrayList<>();
            for (Order o : list.get()) l.add(o);
            Lab.line("op", "list", i, l.isEmpty() ? null : l);
            Map<String, Object> m = new TreeMap<>();
            for (Map.Entry<String, Order> e : map.entries()) m.put(e.getKey(), e.getValue());
            Lab.line("op", "map", i, m.isEmpty() ? null : m);
            Lab.line("op", "sum", i, sum.get());
            Lab.line("op", "pair", i, pair.value());
            Lab.line("op", "phase", i, phase.value());
            GenericRecord r = click.value();
            Lab.line("op", "click", i, Lab.m("page", r.get("page").toString(), "n", r.get("n"), "by", r.get("by") == null ? null : r.get("by").toString()));
            Lab.line("op", "same", i, same.value());
        }
    }

    /** Operator state: of orders the number is the id and 5. */
    static class Elements extends BroadcastProcessFunction<Long, Long, String> implements CheckpointedFunction {
        static final MapStateDescriptor<String, Order> RULES = new MapStateDescriptor<>("rules", Types.STRING, Types.POJO(Order.class));
        final List<Order> mine = new ArrayList<>();
        ListState<Order> split;
        ListState<Integer> union;

        @Override public void initializeState(FunctionInitializationContext c) throws Exception {
            split = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("split", Types.POJO(Order.class)));
            union = c.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("union", Types.INT));
            for (Order o : split.get()) Lab.line("elements", "split", o.id + 5, o);
            for (int n : union.get()) Lab.line("elements", "union", n, n);
        }

        @Override public void snapshotState(FunctionSnapshotContext c) throws Exception {
            List<Integer> numbers = new ArrayList<>();
            for (Order o : mine) numbers.add(o.id + 5);
            if (!Lab.READ) { split.update(mine); union.update(numbers); }
        }

        @Override public void processElement(Long i, ReadOnlyContext c, Collector<String> out) {
            if (!Lab.READ) { mine.add(order(i)); Lab.line("elements", "split", i, order(i)); Lab.line("elements", "union", i, i); }
        }

        @Override public void processBroadcastElement(Long i, Context c, Collector<String> out) throws Exception {
            if (!Lab.READ && i < 9) c.getBroadcastState(RULES).put("r" + i, order(i));
            Lab.line("elements", "rules", i, c.getBroadcastState(RULES).get("r" + i));
        }
    }

    public void build(StreamExecutionEnvironment env, DataStream<Long> src) {
        src.keyBy(x -> x, Types.LONG).process(new Op()).returns(Types.STRING).uid("op").sinkTo(new DiscardingSink<>()).uid("k");
        src.connect(src.broadcast(Elements.RULES)).process(new Elements()).returns(Types.STRING).uid("elements").sinkTo(new DiscardingSink<>()).uid("e");
    }
}
