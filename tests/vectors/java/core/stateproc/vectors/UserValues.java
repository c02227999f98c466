package stateproc.vectors;

import java.io.IOException;
import org.apache.flink.api.java.typeutils.runtime.CopyableValueSerializer;
import org.apache.flink.api.java.typeutils.runtime.ValueSerializer;
import org.apache.flink.core.memory.DataInputView;
import org.apache.flink.core.memory.DataOutputView;
import org.apache.flink.types.LongValue;
import org.apache.flink.types.StringValue;
import org.apache.flink.types.Value;

/** Classes that write themselves: only the class name is in the snapshot. */
public final class UserValues {
    private UserValues() {}

    /** A user's own Value. */
    public static class Money implements Value {
        private static final long serialVersionUID = 1;
        public long cents;
        public String currency = "";

        @Override
        public void write(DataOutputView out) throws IOException {
            out.writeLong(cents);
            out.writeUTF(currency);
        }

        @Override
        public void read(DataInputView in) throws IOException {
            cents = in.readLong();
            currency = in.readUTF();
        }
    }

    static void write(Vectors vectors) throws Exception {
        Money money = new Money();
        money.cents = -1250;
        money.currency = "EUR";
        vectors.add("Value of a user class", new ValueSerializer<>(Money.class), money, new Money());
        vectors.addPairs("CopyableValue of LongValue", new CopyableValueSerializer<>(LongValue.class), new LongValue(-7), -7);
        vectors.addPairs("CopyableValue of StringValue", new CopyableValueSerializer<>(StringValue.class), new StringValue("é"), "é");
    }
}
