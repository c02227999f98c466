// A version of C38 whose states are of other kinds. It reports what it finds in the form of C38, if the states have what
// kinds.json gives them.
import java.util.*;
import org.apache.avro.generic.GenericRecord;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.*;
import org.apache.flink.api.common.typeinfo.*;
import org.apache.flink.formats.avro.typeutils.GenericRecordAvroTypeInfo;
import org.apache.flink.streaming.api.datastream.*;
import org.apache.flink.streaming.api.environment.*;
import org.apache.flink.streaming.api.functions.*;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.util.Collector;

public class C38Kinds implements Lab.Job {
    static class Op extends KeyedProcessFunction<Long, Long, String> {
        ListState<C38.Order> order;
        MapState<Long, C38.Order> timed;
        ValueState<List<C38.Order>> list;
        ValueState<Map<String, C38.Order>> map;
        ListState<Long> sum;
        MapState<String, Integer> pair;
        ValueState<String> phase;
        ValueState<GenericRecord> click;
        ValueState<Long> same;

        @Override public void open(OpenContext c) {
            TypeInformation<C38.Order> type = Types.POJO(C38.Order.class);
            order = getRuntimeContext().getListState(new ListStateDescriptor<>("order", type));
            MapStateDescriptor<Long, C38.Order> ttl = new MapStateDescriptor<>("timed", Types.LONG, type);
            ttl.enableTimeToLive(C38.TTL);
            timed = getRuntimeContext().getMapState(ttl);
            list = getRuntimeContext().getState(new ValueStateDescriptor<>("list", Types.LIST(type)));
            map = getRuntimeContext().getState(new ValueStateDescriptor<>("map", Types.MAP(Types.STRING, type)));
            sum = getRuntimeContext().getListState(new ListStateDescriptor<>("sum", Types.LONG));
            pair = getRuntimeContext().getMapState(new MapStateDescriptor<>("pair", Types.STRING, Types.INT));
            phase = getRuntimeContext().getState(new ValueStateDescriptor<>("phase", Types.STRING));
            click = getRuntimeContext().getState(new ValueStateDescriptor<>("click", new GenericRecordAvroTypeInfo(C38.SCHEMA)));
            same = getRuntimeContext().getState(new ValueStateDescriptor<>("same", Types.LONG));
        }

        @Override public void processElement(Long i, Context c, Collector<String> out) throws Exception {
            List<Object> orders = new ArrayList<>();
            for (C38.Order o : order.get()) orders.add(o);
            Lab.line("op", "order", i, orders.size() == 1 ? orders.get(0) : orders);
            Lab.line("op", "timed", i, size(timed) == 1 ? timed.get(i) : size(timed));
            Lab.line("op", "list", i, list.value());
            Lab.line("op", "map", i, map.value() == null ? null : new TreeMap<>(map.value()));
            List<Long> sums = new ArrayList<>();
            for (Long n : sum.get()) sums.add(n);
            Lab.line("op", "sum", i, sums.size() == 2 && sums.get(0) == -sums.get(1) ? sums.get(0) : sums);
            Lab.line("op", "pair", i, Lab.m("f0", pair.keys().iterator().next(), "f1", pair.get("p" + i)));
            Lab.line("op", "phase", i, phase.value());
            GenericRecord r = click.value();
            Lab.line("op", "click", i, Lab.m("page", r.get("page").toString(), "n", r.get("n"), "by", r.get("by") == null ? null : r.get("by").toString()));
            Lab.line("op", "same", i, same.value());
            // States of the new kinds go on.
            order.add(new C38.Order());
            timed.put(-1L, new C38.Order());
            pair.remove("p" + i);
            int now = 0;
            for (C38.Order o : order.get()) now++;
            if (now != 2 || size(timed) != 2 || !pair.isEmpty()) throw new IllegalStateException("states do not go on");
        }

        static int size(MapState<?, ?> map) throws Exception {
            int n = 0;
            for (Object key : map.keys()) n++;
            return n;
        }
    }

    public void build(StreamExecutionEnvironment env, DataStream<Long> src) {
        src.keyBy(x -> x, Types.LONG).process(new Op()).returns(Types.STRING).uid("op").sinkTo(new DiscardingSink<>()).uid("k");
        src.connect(src.broadcast(C38.Elements.RULES)).process(new C38.Elements()).returns(Types.STRING).uid("elements").sinkTo(new DiscardingSink<>()).uid("e");
    }
}
