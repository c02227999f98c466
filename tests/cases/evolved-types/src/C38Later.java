// The next version of C38: other fields, wider numbers, other classes. It reports what it finds in the form of C38, if
// the fields that are new have what evolution.json gives them.
import java.util.*;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.co.BroadcastProcessFunction;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public class C38Later implements Lab.Job {
    public static class Place { public String road; public long zip; public Place() {} }

    public static class Purchase { public long id; public String buyer; public Long total; public String note; public boolean big; public Place address; public Purchase() {} }

    public static class Pair { public String name; public long number; public Pair() {} }

    public enum Phase { NEW, SENT, PAID }

    static final Schema SCHEMA = new Schema.Parser().parse("{\"type\":\"record\",\"name\":\"Click\",\"namespace\":\"acme\",\"fields\":[{\"name\":\"n\",\"type\":\"long\"},{\"name\":\"source\",\"type\":\"string\",\"default\":\"\"},{\"name\":\"page\",\"type\":\"string\"},{\"name\":\"user\",\"type\":[\"null\",\"string\"],\"default\":null}]}");

    /** The order that a purchase was; `i`: the number whose order it is. */
    static Object before(Purchase p, long i) {
        if (p == null) return null;
        String note = p.buyer == null ? "nobody" : p.buyer.toUpperCase(Locale.ROOT);
        boolean big = p.total != null && p.total > 10_000;
        if (!note.equals(p.note) || big != p.big) return "note " + p.note + ", big " + p.big;
        Object address = p.address == null ? null : Lab.m("$class", "Address", "street", p.address.road, "zip", p.address.zip);
        return Lab.m("$class", "Order", "id", p.id, "customer", p.buyer, "total", p.total, "old", "old " + i, "address", address);
    }

    static class Op extends KeyedProcessFunction<Long, Long, String> {
        ValueState<Purchase> order, timed;
        ListState<Purchase> list;
        MapState<String, Purchase> map;
        ReducingState<Long> sum;
        ValueState<Pair> pair;
        ValueState<Phase> phase;
        ValueState<GenericRecord> click;
        ValueState<Long> same;

        @Override public void open(OpenContext c) {
            TypeInformation<Purchase> type = Types.POJO(Purchase.class);
            order = getRuntimeContext().getState(new ValueStateDescriptor<>("order", type));
            ValueStateDescriptor<Purchase> ttl = new ValueStateDescriptor<>("timed", type);
            ttl.enableTimeToLive(C38.TTL);
            timed = getRuntimeContext().getState(ttl);
            list = getRuntimeContext().getListState(new ListStateDescriptor<>("list", type));
            map = getRuntimeContext().getMapState(new MapStateDescriptor<>("map", Types.STRING, type));
            sum = getRuntimeContext().getReducingState(new ReducingStateDescriptor<>("sum", Long::sum, Types.LONG));
            pair = getRuntimeContext().getState(new ValueStateDescriptor<>("pair", Types.POJO(Pair.class)));
            phase = getRuntimeContext().getState(new ValueStateDescriptor<>("phase", Types.ENUM(Phase.class)));
            click = getRuntimeContext().getState(new ValueStateDescriptor<>("click", new GenericRecordAvroTypeInfo(SCHEMA)));
            same = getRuntimeContext().getState(new ValueStateDescriptor<>("same", Types.LONG));
        }

        @Override public void processElement(Long i, Context c, Collector<String> out) throws Exception {
            Lab.line("op", "order", i, before(order.value(), i));
            Lab.line("op", "timed", i, before(timed.value(), i + 1));
            List<Object> l = new ArrayList<>();
            for (Purchase p : list.get()) l.add(before(p, i + l.size()));
            Lab.line("op", "list", i, l.isEmpty() ? null : l);
            Map<String, Object> m = new TreeMap<>();
            for (Map.Entry<String, Purchase> e : map.entries()) m.put(e.getKey(), before(e.getValue(), i + Integer.parseInt(e.getKey().substring(1))));
            Lab.line("op", "map", i, m.isEmpty() ? null : m);
            Lab.line("op", "sum", i, sum.get());
            Lab.line("op", "pair", i, Lab.m("f0", pair.value().name, "f1", pair.value().number));
            Lab.line("op", "phase", i, phase.value().name());
            GenericRecord r = click.value();
            Object user = r.get("user");
            boolean right = r.getSchema().equals(SCHEMA) && r.get("source").toString().equals("web" + (Long) r.get("n"));
            Lab.line("op", "click", i, right ? Lab.m("page", r.get("page").toString(), "n", r.get("n"), "by", user == null ? null : user.toString()) : "click " + r);
            Lab.line("op", "same", i, same.value());
        }
    }

    static class Elements extends BroadcastProcessFunction<Long, Long, String> implements CheckpointedFunction {
        static final MapStateDescriptor<String, Purchase> RULES = new MapStateDescriptor<>("rules", Types.STRING, Types.POJO(Purchase.class));

        @Override public void initializeState(FunctionInitializationContext c) throws Exception {
            ListState<Purchase> split = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("split", Types.POJO(Purchase.class)));
            ListState<Long> union = c.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("union", Types.LONG));
            for (Purchase p : split.get()) Lab.line("elements", "split", p.id + 5, before(p, p.id + 5));
            for (long n : union.get()) Lab.line("elements", "union", n, n);
        }

        @Override public void snapshotState(FunctionSnapshotContext c) {}

        @Override public void processElement(Long i, ReadOnlyContext c, Collector<String> out) {}

        @Override public void processBroadcastElement(Long i, Context c, Collector<String> out) throws Exception {
            Lab.line("elements", "rules", i, before(c.getBroadcastState(RULES).get("r" + i), i));
        }
    }

    public void build(StreamExecutionEnvironment env, DataStream<Long> src) {
        src.keyBy(x -> x, Types.LONG).process(new Op()).returns(Types.STRING).uid("op").sinkTo(new DiscardingSink<>()).uid("k");
        src.connect(src.broadcast(Elements.RULES)).process(new Elements()).returns(Types.STRING).uid("elements").sinkTo(new DiscardingSink<>()).uid("e");
    }
}
