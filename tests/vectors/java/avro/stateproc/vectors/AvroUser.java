package stateproc.vectors;

import java.util.ArrayList;
import java.util.List;
import org.apache.avro.Schema;

/** Written by hand in the form Avro's compiler gives. */
public class AvroUser extends org.apache.avro.specific.SpecificRecordBase {
    public static final Schema SCHEMA$ = AvroTypes.schema("{'type':'record','name':'AvroUser','namespace':'stateproc.vectors','fields':["
            + "{'name':'id','type':'long'},{'name':'name','type':['null','string'],'default':null},"
            + "{'name':'scores','type':{'type':'array','items':'double'}}]}");
    public long id;
    public CharSequence name;
    public List<Double> scores = new ArrayList<>();

    @Override
    public Schema getSchema() {
        return SCHEMA$;
    }

    @Override
    public Object get(int field) {
        return field == 0 ? (Object) id : field == 1 ? name : scores;
    }

    @Override
    @SuppressWarnings("unchecked")
    public void put(int field, Object value) {
        if (field == 0) {
            id = (Long) value;
        } else if (field == 1) {
            name = (CharSequence) value;
        } else {
            scores = (List<Double>) value;
        }
    }
}
