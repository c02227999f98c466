package stateproc.vectors;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import org.apache.flink.api.common.typeutils.TypeSerializer;
import org.apache.flink.api.common.typeutils.base.StringSerializer;

/** States of pattern matching. */
final class CepTypes {
    private static final String NFA = "org.apache.flink.cep.nfa.";
    private static final String BUFFER = NFA + "sharedbuffer.";

    private CepTypes() {}

    static void write(Vectors vectors) throws Exception {
        Object event = Reflect.create(BUFFER + "EventId", 7, 1000L);
        Map<String, Object> eventTree = Json.object("id", 7, "timestamp", 1000L);
        Object dewey = Reflect.callStatic(NFA + "DeweyNumber", "fromString", "1.0.12");
        List<Object> deweyTree = Arrays.asList(1, 0, 12);
        Object node = Reflect.create(BUFFER + "NodeId", event, "start:0");
        Map<String, Object> nodeTree = Json.object("event", eventTree, "page", "start:0");
        Object edge = Reflect.create(BUFFER + "SharedBufferEdge", node, dewey);
        Map<String, Object> edgeTree = Json.object("target", nodeTree, "version", deweyTree);
        Object first = Reflect.create(BUFFER + "SharedBufferEdge", null, Reflect.create(NFA + "DeweyNumber", 1));
        Map<String, Object> firstTree = Json.object("target", null, "version", Arrays.asList(1));
        TypeSerializer<?> nodes = Reflect.create(BUFFER + "NodeId$NodeIdSerializer");
        TypeSerializer<?> edges = Reflect.create(BUFFER + "SharedBufferEdge$SharedBufferEdgeSerializer");
        vectors.addPairs("EventId", Reflect.constant(BUFFER + "EventId$EventIdSerializer", "INSTANCE"), event, eventTree);
        vectors.addPairs("DeweyNumber", Reflect.constant(NFA + "DeweyNumber$DeweyNumberSerializer", "INSTANCE"), dewey, deweyTree);
        vectors.addPairs("NodeId", nodes, node, nodeTree, null, null);
        vectors.addPairs("SharedBufferEdge", edges, edge, edgeTree, first, firstTree);
        vectors.attempt("Lockable", () -> vectors.addPairs("Lockable",
                Reflect.create(BUFFER + "Lockable$LockableTypeSerializer", StringSerializer.INSTANCE),
                Reflect.create(BUFFER + "Lockable", "é", 3), Json.object("refs", 3, "element", "é")));
        vectors.attempt("SharedBufferNode", () -> bufferNodes(vectors, edge, edgeTree, first, firstTree));
        vectors.attempt("NFAState", () -> states(vectors, event, eventTree, dewey, deweyTree, node, nodeTree));
    }

    private static void bufferNodes(Vectors vectors, Object edge, Object edgeTree, Object first, Object firstTree)
            throws Exception {
        Object node = Reflect.create(BUFFER + "SharedBufferNode");
        Reflect.call(node, "addEdge", edge);
        Reflect.call(node, "addEdge", first);
        boolean locked = Reflect.field(node, "edges").toString().contains("Lock");
        Object[] trees = {edgeTree, firstTree};
        List<Object> all = new ArrayList<>();
        for (Object tree : trees) {
            all.add(locked ? Json.object("refs", 0, "element", tree) : tree);
        }
        vectors.addPairs("SharedBufferNode", Reflect.create(BUFFER + "SharedBufferNodeSerializer"),
                node, Json.object("edges", all), Reflect.create(BUFFER + "SharedBufferNode"), Json.object("edges", new ArrayList<>()));
    }

    private static void states(Vectors vectors, Object event, Object eventTree, Object dewey, Object deweyTree,
            Object node, Object nodeTree) throws Exception {
        Object start = Reflect.callStatic(NFA + "ComputationState", "createStartState", "start");
        Object later;
        boolean previous = true;
        try {
            later = Reflect.callStatic(NFA + "ComputationState", "createState", "middle é", node, dewey, 5L, 6L, event);
        } catch (NoSuchMethodException before117) {
            later = Reflect.callStatic(NFA + "ComputationState", "createState", "middle é", node, dewey, 5L, event);
            previous = false;
        }
        Map<String, Object> startTree = Json.object("state", "start", "previous", null, "version", Arrays.asList(1),
                "start_timestamp", -1);
        Map<String, Object> laterTree = Json.object("state", "middle é", "previous", nodeTree, "version", deweyTree, "start_timestamp", 5);
        if (previous) {
            startTree.put("previous_timestamp", -1);
            laterTree.put("previous_timestamp", 6);
        }
        startTree.put("start_event", null);
        laterTree.put("start_event", eventTree);
        Queue<Object> partial = new LinkedList<>(Arrays.asList(start, later));
        Queue<Object> completed = new LinkedList<>(Arrays.asList(later));
        vectors.addPairs("NFAState", Reflect.create(NFA + "NFAStateSerializer"),
                Reflect.create(NFA + "NFAState", partial, completed),
                Json.object("partial", Arrays.asList(startTree, laterTree), "completed", Arrays.asList(laterTree)),
                Reflect.create(NFA + "NFAState", new LinkedList<>(), new LinkedList<>()),
                Json.object("partial", new ArrayList<>(), "completed", new ArrayList<>()));
    }
}
