package com.acme.lab;
import java.time.*;
import java.util.*;
import org.apache.flink.api.common.eventtime.*;
import org.apache.flink.api.common.functions.*;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.api.java.tuple.*;
import org.apache.flink.runtime.state.*;
import org.apache.flink.streaming.api.checkpoint.*;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.windowing.*;
import org.apache.flink.streaming.api.windowing.windows.*;
import org.apache.flink.util.Collector;

/** What Flink 2 refuses or misreads of Flink 1: values of Kryo and collections in POJOs, in every kind of state. */
public class Case03 extends Lab.Case {
    public enum Colour { RED, GREEN, BLUE }
    /** A POJO. */
    public static class Line {
        public String product; public int count;
        public Line() {} public Line(String p, int c) { product = p; count = c; }
        @Override public boolean equals(Object o) { return o instanceof Line && Objects.equals(((Line) o).product, product) && ((Line) o).count == count; }
        @Override public int hashCode() { return count; }
    }
    /** No POJO: without a default constructor. */
    public static final class Code {
        private final String text; private final short number; private final double weight;
        public Code(String t, int n, double w) { text = t; number = (short) n; weight = w; }
        @Override public boolean equals(Object o) { return o instanceof Code && ((Code) o).text.equals(text) && ((Code) o).number == number && ((Code) o).weight == weight; }
        @Override public int hashCode() { return number; }
        @Override public String toString() { return text + number; }
    }
    /** A POJO with collections and fields that Flink leaves to Kryo. */
    public static class Order {
        public String id; public List<String> tags; public Map<String, Long> counts; public Set<Integer> numbers; public Collection<Long> longs;
        public List<Line> lines; public List<UUID> uuids; public Map<Colour, Line> byColour; public List<Code> codes;
        public HashMap<String, Long> hashes; public List<List<String>> nested; public SortedMap<String, Integer> sorted;
        public UUID uuid; public LocalDate day; public ZonedDateTime at; public Object any; public Code code; public Line[] array; public float[] floats;
        public Order() {}
        Object[] all() { return new Object[] {id, tags, counts, numbers, longs == null ? null : new ArrayList<>(longs), lines, uuids, byColour, codes, hashes, nested, sorted, uuid, day, at, any, code, array, floats}; }
        @Override public boolean equals(Object o) { return o instanceof Order && Arrays.deepEquals(all(), ((Order) o).all()); }
        @Override public int hashCode() { return id.hashCode(); }
        @Override public String toString() { return Arrays.deepToString(all()); }
    }
    static Order order(long i) {
        Order o = new Order(); o.id = "o" + i; if (i == 0) return o;
        o.tags = new ArrayList<>(Arrays.asList("a" + i, null, "é")); o.counts = new HashMap<>(Map.of("k", i)); o.numbers = new HashSet<>(Arrays.asList(1, (int) i * 1000)); o.longs = new ArrayList<>(Arrays.asList(i, -1L));
        o.lines = new ArrayList<>(Arrays.asList(new Line("tea", 1), new Line(null, (int) i))); o.uuids = new ArrayList<>(Arrays.asList(new UUID(i, 2))); o.byColour = new HashMap<>(Map.of(Colour.BLUE, new Line("b", 3))); o.codes = new ArrayList<>(Arrays.asList(new Code("c", (int) i, 2.5)));
        o.hashes = new HashMap<>(Map.of("h", i)); o.nested = new ArrayList<>(Arrays.asList(new ArrayList<>(Arrays.asList("n" + i)))); o.sorted = new TreeMap<>(Map.of("s", 7));
        o.uuid = new UUID(1, i); o.day = LocalDate.of(2024, 2, 29); o.at = ZonedDateTime.of(2020, 1, 2, 3, 4, 5, 6, ZoneId.of("Europe/Berlin")); o.any = new LinkedList<>(Arrays.asList(1, "x", 2.5)); o.code = new Code("d", 3, -0.5);
        o.array = new Line[] {new Line("z", 9), null}; o.floats = new float[] {1.5f};
        return o;
    }
    static TypeInformation<Order> pojo() { return Types.POJO(Order.class); }
    static class Keyed extends Lab.Fn<Long> {
        Keyed() { super("keyed"); }
        @Override public void fill(long i) throws Exception {
            value("order", pojo(), order(i), null);
            value("map", Lab.genAs(HashMap.class), new HashMap<>(Map.of("k", 4L, "l", i)), null);
            value("list", Lab.genAs(ArrayList.class), new ArrayList<>(Arrays.asList("a", (int) i, 2.5f, new UUID(3, i))), null);
            value("uuid", Lab.gen(UUID.class), new UUID(i, -2), null);
            ttlValue("any", Lab.gen(Object.class), Optional.of(Duration.ofSeconds(i, 5)), null);
            list("orders", pojo(), Arrays.asList(order(i), order(0)), null);
            map("by-code", Lab.gen(Code.class), pojo(), Map.of(new Code("a code of more than thirty-two characters " + i, 1, 2), order(i)), null);
            value("plain", Types.LONG, i, null);
        }
    }
    static class ByCode extends Lab.Fn<Code> {
        ByCode() { super("by-code"); }
        @Override protected Object shown(Code key) { return fields(key); }
        @Override public void fill(long i) throws Exception { value("last", Types.LONG, i, null); ctx.timerService().registerEventTimeTimer(1000 + i); }
    }
    static Map<String, Object> fields(Code c) { return c == null ? null : Lab.obj("text", c.text, "number", c.number, "weight", c.weight); }
    static TypeInformation<Code> code() { return Lab.gen(Code.class); }
    /** Arrays that Kryo writes, tuples, an enum, reducing and aggregating state, lists and maps with a time to live. */
    static class Shapes extends Lab.Fn<Long> {
        Shapes() { super("shapes"); }
        static class Gather implements AggregateFunction<Code, ArrayList<Code>, ArrayList<Code>> {
            @Override public ArrayList<Code> createAccumulator() { return new ArrayList<>(); }
            @Override public ArrayList<Code> add(Code c, ArrayList<Code> all) { all.add(c); return all; }
            @Override public ArrayList<Code> getResult(ArrayList<Code> all) { return all; }
            @Override public ArrayList<Code> merge(ArrayList<Code> a, ArrayList<Code> b) { a.addAll(b); return a; }
        }
        <S extends AppendingState<Code, ?>> void appended(String n, S state, Code c, Object want, Object shown) throws Exception { if (Lab.CHECK) same(n, state::get, want); else { state.add(c); exp(n, "value", shown); } }
        @Override public void fill(long i) throws Exception {
            Code a = new Code("a" + i, (int) i, 0.5), b = new Code("b", 2, -1); UUID u = new UUID(i, 1);
            value("tuple", Types.TUPLE(Types.STRING, Types.POJO(Line.class), code(), Lab.gen(UUID.class)), Tuple4.of("t" + i, new Line("tea", (int) i), a, u), Lab.obj("f0", "t" + i, "f1", Lab.obj("product", "tea", "count", i), "f2", fields(a), "f3", u.toString()));
            value("colour", Types.ENUM(Colour.class), Colour.values()[(int) i % 3], Colour.values()[(int) i % 3].name());
            value("longs", Lab.gen(long[].class), new long[] {i, -1}, Lab.arr(i, -1));
            value("names", Lab.gen(String[].class), new String[] {"n" + i, null, "é"}, Lab.arr("n" + i, null, "é"));
            value("codes", Lab.gen(Code[].class), new Code[] {a, null, b}, Lab.arr(fields(a), null, fields(b)));
            value("objects", Lab.gen(Object[].class), new Object[] {i, "x", null, new int[] {1, (int) i}}, Lab.arr(i, "x", null, Lab.arr(1, i)));
            value("grid", Lab.gen(double[][].class), new double[][] {{i, 0.5}, {}}, Lab.arr(Lab.arr((double) i, 0.5), Lab.arr()));
            map("by-colour", Types.ENUM(Colour.class), Types.TUPLE(Types.LONG, Lab.gen(String[].class)), Map.of(Colour.BLUE, Tuple2.of(i, new String[] {"s"})), Lab.pairs("BLUE", Lab.obj("f0", i, "f1", Lab.arr("s"))));
            appended("newest", getRuntimeContext().getReducingState(new ReducingStateDescriptor<Code>("newest", (x, y) -> y, code())), a, a, fields(a));
            appended("all", getRuntimeContext().getAggregatingState(new AggregatingStateDescriptor<Code, ArrayList<Code>, ArrayList<Code>>("all", new Gather(), Lab.<ArrayList<Code>>genAs(ArrayList.class))), b, new ArrayList<>(Arrays.asList(b)), Lab.arr(fields(b)));
            ListStateDescriptor<UUID> uuids = new ListStateDescriptor<>("uuids", Lab.gen(UUID.class)); uuids.enableTimeToLive(Lab.ttl()); ListState<UUID> l = getRuntimeContext().getListState(uuids);
            MapStateDescriptor<String, Code> kept = new MapStateDescriptor<>("kept", Types.STRING, code()); kept.enableTimeToLive(Lab.ttl()); MapState<String, Code> m = getRuntimeContext().getMapState(kept);
            if (!Lab.CHECK) { l.add(u); l.add(new UUID(9, 9)); m.put("k", a); exp("uuids", "list", Lab.arr(u.toString(), new UUID(9, 9).toString())); exp("kept", "map", Lab.pairs("k", fields(a))); return; }
            same("uuids", () -> { List<Object> g = new ArrayList<>(); for (UUID x : l.get()) g.add(x); return g; }, new ArrayList<>(Arrays.asList(u, new UUID(9, 9))));
            same("kept", () -> { Map<Object, Object> g = new HashMap<>(); for (Map.Entry<String, Code> x : m.entries()) g.put(x.getKey(), x.getValue()); return g; }, new HashMap<>(Map.of("k", a)));
        }
    }
    /** Timers under a key with a part that Kryo writes. Only what the snapshot has can fire: a job that reads registers none. */
    static class Alarms extends Lab.Fn<Tuple2<String, Code>> {
        Alarms() { super("alarms"); }
        @Override protected Object shown(Tuple2<String, Code> key) { return Lab.obj("f0", key.f0, "f1", fields(key.f1)); }
        @Override public void fill(long i) throws Exception {
            value("owner", Types.LONG, i, i); if (Lab.CHECK) return;
            ctx.timerService().registerEventTimeTimer(5000 + i); exp("event-timers", "timer", 5000 + i);
            ctx.timerService().registerProcessingTimeTimer(4102444800000L + i); exp("processing-timers", "timer", 4102444800000L + i);
        }
        @Override public void onTimer(long at, OnTimerContext c, Collector<Long> out) throws Exception {
            shownKey = shown(c.getCurrentKey()); long i = getRuntimeContext().getState(vd("owner", Types.LONG)).value();
            exp("fired", "check", at == 5000 + i && c.timeDomain() == org.apache.flink.streaming.api.TimeDomain.EVENT_TIME ? (Object) true : "fired " + at + " of " + i);
        }
    }
    /** Lets the timers fire in a job that reads. */
    static class Later implements WatermarkGenerator<Long> {
        @Override public void onEvent(Long i, long at, WatermarkOutput out) {}
        @Override public void onPeriodicEmit(WatermarkOutput out) { if (Lab.CHECK) out.emitWatermark(new Watermark(6000)); }
    }
    static void found(String uid, String state, Object got, Object want) throws Exception {
        Map<String, Object> m = new LinkedHashMap<>(); m.put("uid", uid); m.put("state", state); m.put("kind", Lab.CHECK ? "check" : "list"); m.put("key", null);
        m.put("value", !Lab.CHECK ? null : Lab.Same.same(got, want) ? (Object) true : "found " + got + ", not " + want); Lab.EXPECTED.add(m);
    }
    static class Elements extends RichMapFunction<Long, Long> implements CheckpointedFunction {
        @Override public Long map(Long i) { return i; }
        @Override public void snapshotState(FunctionSnapshotContext c) {}
        @Override public void initializeState(FunctionInitializationContext c) throws Exception {
            List<Order> orders = Arrays.asList(order(0), order(1), order(2)); List<Object> any = Arrays.asList(new UUID(1, 2), new ArrayList<>(Arrays.asList("a", 2)), "text");
            ListState<Order> split = c.getOperatorStateStore().getListState(new ListStateDescriptor<>("split", pojo()));
            ListState<Object> union = c.getOperatorStateStore().getUnionListState(new ListStateDescriptor<>("union", Lab.gen(Object.class)));
            BroadcastState<Code, Order> rules = c.getOperatorStateStore().getBroadcastState(new MapStateDescriptor<>("rules", Lab.gen(Code.class), pojo()));
            if (!Lab.CHECK) { split.update(orders); union.update(any); rules.put(new Code("r", 1, 2), order(5)); }
            List<Object> a = new ArrayList<>(), b = new ArrayList<>(); for (Order o : split.get()) a.add(o); for (Object o : union.get()) b.add(o); Map<Object, Object> r = new HashMap<>(); for (Map.Entry<Code, Order> e : rules.entries()) r.put(e.getKey(), e.getValue());
            found("elements", "split", a, new ArrayList<>(orders)); found("elements", "union", b, new ArrayList<>(any)); found("elements", "rules", r, new HashMap<>(Map.of(new Code("r", 1, 2), order(5))));
        }
    }
    /** Fires with the second element of a key, the first of which is in the snapshot. */
    static class Pairs extends ProcessWindowFunction<Order, Long, Long, GlobalWindow> {
        @Override public void process(Long key, Context c, Iterable<Order> it, Collector<Long> out) throws Exception {
            List<Object> got = new ArrayList<>(); for (Order o : it) got.add(o);
            Map<String, Object> m = new LinkedHashMap<>(); m.put("uid", "windows"); m.put("state", "window-contents"); m.put("kind", "check"); m.put("key", key);
            m.put("value", Lab.Same.same(got, new ArrayList<>(Arrays.asList(order(key), order(key)))) ? (Object) true : "found " + got); Lab.EXPECTED.add(m);
        }
    }
    @Override public void build(StreamExecutionEnvironment env, DataStream<Long> in) {
        if (variant.equals("shapes")) { in.keyBy(x -> x).process(new Shapes()).uid("shapes"); return; }
        in.keyBy(x -> x).process(new Keyed()).uid("keyed");
        in.keyBy(x -> new Code("c", (int) (long) x, 0.5), Lab.gen(Code.class)).process(new ByCode()).uid("by-code");
        in.keyBy(x -> x).process(new Shapes()).uid("shapes");
        in.assignTimestampsAndWatermarks(WatermarkStrategy.<Long>forGenerator(c -> new Later())).keyBy(x -> Tuple2.of("k", new Code("c", (int) (long) x, 0.5)), Types.TUPLE(Types.STRING, code())).process(new Alarms()).uid("alarms");
        in.map(new Elements()).uid("elements");
        in.map(Case03::order).returns(pojo()).uid("orders").keyBy(o -> Long.parseLong(o.id.substring(1)), Types.LONG).countWindow(2).process(new Pairs()).uid("windows");
    }
}
