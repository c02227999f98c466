// C38 with keys of another type, which the argument names. It reports what it finds of each key by the number that the
// key was, and in "fired" and "processed" the times of its timers, which all fire.
import java.util.*;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;
import org.apache.flink.streaming.api.TimeDomain;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.types.Row;
import org.apache.flink.util.Collector;

public class C38Keys implements Lab.Job {
    public static class Customer {
        public String name; public Integer number; public String region;
        public Customer() {}
        public Customer(String name, Integer number, String region) { this.name = name; this.number = number; this.region = region; }
        @Override public boolean equals(Object o) { return o instanceof Customer && Objects.equals(name, ((Customer) o).name) && Objects.equals(number, ((Customer) o).number) && Objects.equals(region, ((Customer) o).region); }
        @Override public int hashCode() { return Objects.hash(name, number, region); }
    }

    /** The key of a number. */
    static Object key(long i) {
        switch (Lab.ARG) {
            case "string": return "käufer 😀 " + i;
            case "integer": return (int) i - 1;
            case "double": return -(double) i;
            case "tuple": return Tuple2.of(i % 3 == 0 ? "" : "käufer", i);
            case "row": return Row.of(i, i % 2 == 0 ? null : "k" + i);
            case "pojo": return new Customer("käufer " + i, i % 2 == 0 ? null : (int) i, i % 5 == 0 ? "" : "EU");
            default: throw new IllegalArgumentException(Lab.ARG);
        }
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static TypeInformation<Object> type() {
        Map<String, TypeInformation> types = Map.of("string", Types.STRING, "integer", Types.INT, "double", Types.DOUBLE,
            "tuple", Types.TUPLE(Types.STRING, Types.LONG), "row", Types.ROW(Types.LONG, Types.STRING), "pojo", Types.POJO(Customer.class));
        return types.get(Lab.ARG);
    }

    static class Op extends KeyedProcessFunction<Object, Long, String> {
        ValueState<C38.Order> order, timed;
        ListState<C38.Order> list;
        MapState<String, C38.Order> map;
        ReducingState<Integer> sum;
        ValueState<Tuple2<String, Integer>> pair;
        ValueState<String> phase;
        ValueState<org.apache.avro.generic.GenericRecord> click;
        ValueState<Long> same;

        @Override public void open(OpenContext c) {
            order = getRuntimeContext().getState(new ValueStateDescriptor<>("order", Types.POJO(C38.Order.class)));
            ValueStateDescriptor<C38.Order> ttl = new ValueStateDescriptor<>("timed", Types.POJO(C38.Order.class));
            ttl.enableTimeToLive(C38.TTL);
            timed = getRuntimeContext().getState(ttl);
            list = getRuntimeContext().getListState(new ListStateDescriptor<>("list", Types.POJO(C38.Order.class)));
            map = getRuntimeContext().getMapState(new MapStateDescriptor<>("map", Types.STRING, Types.POJO(C38.Order.class)));
            sum = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("sum", Integer::sum, Types.INT));
            pair = getRuntimeContext().getState(new ValueStateDescriptor<>("pair", Types.TUPLE(Types.STRING, Types.INT)));
            phase = getRuntimeContext().getState(new ValueStateDescriptor<>("phase", Types.STRING));
            click = getRuntimeContext().getState(new ValueStateDescriptor<>("click", new GenericRecordAvroTypeInfo(C38.SCHEMA)));
            same = getRuntimeContext().getState(new ValueStateDescriptor<>("same", Types.LONG));
        }

        @Override public void processElement(Long i, Context c, Collector<String> out) throws Exception {
            Lab.line("op", "order", i, order.value());
            Lab.line("op", "timed", i, timed.value());
            List<Object> l = new ArrayList<>();
            for (C38.Order o : list.get()) l.add(o);
            Lab.line("op", "list", i, l.isEmpty() ? null : l);
            Map<String, Object> m = new TreeMap<>();
            for (Map.Entry<String, C38.Order> e : map.entries()) m.put(e.getKey(), e.getValue());
            Lab.line("op", "map", i, m.isEmpty() ? null : m);
            Lab.line("op", "sum", i, sum.get());
            Lab.line("op", "pair", i, pair.value());
            Lab.line("op", "phase", i, phase.value());
            var r = click.value();
            Lab.line("op", "click", i, r == null ? null : Lab.m("page", r.get("page").toString(), "n", r.get("n"), "by", r.get("by") == null ? null : r.get("by").toString()));
            Lab.line("op", "same", i, same.value());
        }

        @Override public void onTimer(long time, OnTimerContext c, Collector<String> out) throws Exception {
            Long i = same.value();
            String state = c.timeDomain() == TimeDomain.EVENT_TIME ? "fired" : "processed";
            Lab.line("op", state, String.valueOf(i), i != null && key(i).equals(c.getCurrentKey()) ? time : "a timer of " + c.getCurrentKey());
        }
    }

    /** After each element all timers are due. */
    static class Due implements WatermarkGenerator<Long> {
        @Override public void onEvent(Long i, long time, WatermarkOutput out) { out.emitWatermark(new Watermark(Long.MAX_VALUE - 1)); }
        @Override public void onPeriodicEmit(WatermarkOutput out) {}
    }

    public void build(StreamExecutionEnvironment env, DataStream<Long> src) {
        DataStream<Long> due = src.assignTimestampsAndWatermarks(WatermarkStrategy.<Long>forGenerator(c -> new Due()));
        due.keyBy((KeySelector<Long, Object>) C38Keys::key, type()).process(new Op()).returns(Types.STRING).uid("op").sinkTo(new DiscardingSink<>()).uid("k");
        src.connect(src.broadcast(C38.Elements.RULES)).process(new C38.Elements()).returns(Types.STRING).uid("elements").sinkTo(new DiscardingSink<>()).uid("e");
    }
}
