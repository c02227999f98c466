// Writes java_objects.json: java JavaObjects.java > java_objects.json
import java.io.*; import java.util.*; import java.math.*; import java.util.concurrent.*;
public class JavaObjects {
  enum Color { RED, GREEN { void x(){} } }
  static class Base implements Serializable { private static final long serialVersionUID=1; int x = 7; String name = "base"; }
  static class Sub extends Base { private static final long serialVersionUID=2; int x = 8; Object self; byte[] raw={1,2,-1}; char c='\u00e9'; double d=-0.5; float f=1.5f; short s=-3; byte b=-128; boolean z=true; long l=Long.MIN_VALUE; }
  static class Ext implements Externalizable { public Ext(){} public void writeExternal(ObjectOutput o) throws IOException { o.writeInt(42); o.writeObject("inner"); o.writeUTF("x"); } public void readExternal(ObjectInput i){} }
  static class Handler implements java.lang.reflect.InvocationHandler, Serializable { private static final long serialVersionUID=3; public Object invoke(Object a, java.lang.reflect.Method m, Object[] b){return null;} }
  static StringBuilder out = new StringBuilder("{");
  static byte[] ser(Object o) throws Exception { var b = new ByteArrayOutputStream(); var s = new ObjectOutputStream(b); s.writeObject(o); s.flush(); return b.toByteArray(); }
  static void put(String n, Object o) throws Exception { if(out.length()>1) out.append(",\n"); out.append("\""+n+"\": \""+HexFormat.of().formatHex(ser(o))+"\""); }
  public static void main(String[] a) throws Exception {
    put("null", null); put("string", "h\u00e9\u0000\ud83d\ude00"); 
    put("integer", 5); put("long", -1L); put("boolean", true); put("character", 'x'); put("double", 0.25);
    put("enum", Color.RED); put("enum_body", Color.GREEN); put("class", String.class);
    put("array_list", new ArrayList<>(List.of(1, "two", 3L)));
    put("linked_list", new LinkedList<>(List.of("a","b"))); put("array_deque", new ArrayDeque<>(List.of("a","b")));
    put("vector", new Vector<>(List.of("a","b"))); put("arrays_as_list", Arrays.asList("a", null, "b"));
    put("list_of", List.of(1,2,3)); put("list_of_empty", List.of()); put("set_of", Set.of("one")); put("map_of", Map.of("k", 1));
    var lhs = new LinkedHashSet<String>(); lhs.add("z"); lhs.add("a"); put("linked_hash_set", lhs);
    put("tree_set", new TreeSet<>(List.of("b","a"))); var ts = new TreeSet<String>(Comparator.reverseOrder()); ts.add("a"); ts.add("b"); put("tree_set_reversed", ts);
    var lhm = new LinkedHashMap<Object,Object>(); lhm.put("z", 1); lhm.put(2, null); put("linked_hash_map", lhm);
    put("hash_map", new HashMap<>(Map.of("k","v"))); put("tree_map", new TreeMap<>(Map.of("b",2,"a",1)));
    put("hashtable", new Hashtable<>(Map.of("k","v"))); put("concurrent_map", new ConcurrentHashMap<>(Map.of("k","v")));
    var em = new EnumMap<Color,String>(Color.class); em.put(Color.RED,"r"); put("enum_map", em);
    put("unmodifiable_list", Collections.unmodifiableList(new ArrayList<>(List.of("a")))); put("unmodifiable_map", Collections.unmodifiableMap(new HashMap<>(Map.of("k","v"))));
    put("unmodifiable_set", Collections.unmodifiableSet(new HashSet<>(List.of("a"))));
    put("synchronized_list", Collections.synchronizedList(new ArrayList<>(List.of("a"))));
    put("synchronized_map", Collections.synchronizedMap(new HashMap<>(Map.of("k","v"))));
    put("singleton_list", Collections.singletonList("a")); put("singleton_set", Collections.singleton("a")); put("singleton_map", Collections.singletonMap("k","v")); put("empty_list", Collections.emptyList()); put("empty_map", Collections.emptyMap());
    put("big_integer", new BigInteger("-123456789012345678901234567890")); put("big_decimal", new BigDecimal("-12345678901234567890.1234")); put("big_decimal_scale", new BigDecimal("1E+10"));
    put("date", new Date(1500000000123L)); put("uuid", UUID.fromString("123e4567-e89b-12d3-a456-426614174000"));
    put("bytes", new byte[]{0,1,(byte)255}); put("ints", new int[]{1,-1}); put("chars", "ab".toCharArray()); put("longs", new long[]{Long.MAX_VALUE}); put("booleans", new boolean[]{true,false}); put("doubles", new double[]{1.5}); put("floats", new float[]{2.5f}); put("shorts", new short[]{-2});
    put("strings", new String[]{"a",null,"a"}); put("nested_arrays", new int[][]{{1},{}});
    Sub s = new Sub(); s.self = s; put("object", s); put("externalizable", new Ext());
    put("proxy", java.lang.reflect.Proxy.newProxyInstance(JavaObjects.class.getClassLoader(), new Class<?>[]{Runnable.class}, new Handler()));
    var self = new ArrayList<Object>(); self.add("x"); self.add(self); put("self_list", self);
    put("object_stream_class", ObjectStreamClass.lookup(Base.class));
    { var b = new ByteArrayOutputStream(); var o = new ObjectOutputStream(b); o.reset(); o.writeObject(new Object[]{"after reset", "after reset"}); o.flush(); out.append(",\n\"reset\": \""+HexFormat.of().formatHex(b.toByteArray())+"\""); }
    { var b = new ByteArrayOutputStream(); var o = new ObjectOutputStream(b); try { o.writeObject(new Object[]{"ok", new Object()}); } catch (NotSerializableException e) {} o.flush(); out.append(",\n\"failed\": \""+HexFormat.of().formatHex(b.toByteArray())+"\""); }
    { var b = new ByteArrayOutputStream(); var o = new ObjectOutputStream(b); o.useProtocolVersion(1); o.writeObject(new Ext()); o.flush(); out.append(",\n\"externalizable_v1\": \""+HexFormat.of().formatHex(b.toByteArray())+"\""); }
    System.out.println(out.append("}"));
  }
}
