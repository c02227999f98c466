// Writes metadata_2_3_0.hex with flink-runtime 2.3.0 on the class path: every kind of handle in one _metadata.
import java.io.*; import java.util.*; import java.nio.charset.StandardCharsets;
import org.apache.flink.api.java.tuple.Tuple2; import org.apache.flink.core.fs.Path;
import org.apache.flink.core.execution.SavepointFormatType;
import org.apache.flink.runtime.checkpoint.*; import org.apache.flink.runtime.checkpoint.channel.*; import org.apache.flink.runtime.checkpoint.metadata.*;
import org.apache.flink.runtime.checkpoint.filemerging.*; import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.state.*; import org.apache.flink.runtime.state.changelog.inmemory.InMemoryChangelogStateHandle; import org.apache.flink.runtime.state.changelog.*; import org.apache.flink.runtime.state.filemerging.*; import org.apache.flink.runtime.state.memory.ByteStreamStateHandle;
public class MetadataHandles { public static void main(String[] a) throws Exception {
  var range = KeyGroupRange.of(0, 3);
  var inline = new ByteStreamStateHandle("inline", new byte[]{1,2,3});
  var file = new org.apache.flink.runtime.state.filesystem.FileStateHandle(new Path("file:/c/job/shared/f"), 77);
  var seg = new SegmentFileStateHandle(new Path("file:/c/job/shared/seg"), 10, 20, CheckpointedStateScope.SHARED, LogicalFile.LogicalFileId.generateRandomId());
  var op = new OperatorState("name", "uid", new OperatorID(1, -2), 4, 128);
  var offsets = new KeyGroupRangeOffsets(range, new long[]{0, 5, 9, 12});
  var mem = new InMemoryChangelogStateHandle(List.of(StateChange.ofMetadataChange(new byte[]{9}), StateChange.ofDataChange(2, new byte[]{8,7})), SequenceNumber.of(3), SequenceNumber.of(5), range);
  var log = new ChangelogStateHandleStreamImpl(List.of(Tuple2.of((StreamStateHandle) file, 33L)), range, 77, 70, "filesystem");
  var inc = new IncrementalRemoteKeyedStateHandle(UUID.fromString("00000000-0000-0000-0000-000000000001"), range, 6, List.of(IncrementalKeyedStateHandle.HandleAndLocalPath.of(seg, "1.sst")), List.of(IncrementalKeyedStateHandle.HandleAndLocalPath.of(inline, "CURRENT")), inline);
  var changelog = new ChangelogStateBackendHandle.ChangelogStateBackendHandleImpl(List.<KeyedStateHandle>of(inc), List.<ChangelogStateHandle>of(mem, log), range, 6, 2, 99);
  var states = Map.of("s", new OperatorStateHandle.StateMetaInfo(new long[]{4, 8}, OperatorStateHandle.Mode.UNION));
  var in1 = new InputChannelStateHandle(0, new InputChannelInfo(0, 1), inline, List.of(4L), 3);
  var in2 = new InputChannelStateHandle(0, new InputChannelInfo(0, 2), inline, List.of(6L, 8L), 3);
  var out = new ResultSubpartitionStateHandle(0, new ResultSubpartitionInfo(1, 2), inline, List.of(4L), 3);
  op.putState(0, OperatorSubtaskState.builder().setManagedKeyedState(changelog).setRawKeyedState(new KeyGroupsStateHandle(offsets, file))
     .setManagedOperatorState(new FileMergingOperatorStreamStateHandle(DirectoryStreamStateHandle.of(new Path("file:/c/owned")), DirectoryStreamStateHandle.of(new Path("file:/c/shared")), states, seg))
     .setRawOperatorState(new OperatorStreamStateHandle(states, inline))
     .setInputChannelState(new StateObjectCollection<>(List.<InputStateHandle>of(in1, MergedInputChannelStateHandle.fromChannelHandles(List.of(in1, in2)))))
     .setResultSubpartitionState(StateObjectCollection.singleton(out)).build());
  op.putState(1, OperatorSubtaskState.builder().setManagedKeyedState(new KeyGroupsSavepointStateHandle(offsets, inline)).build());
  op.putState(2, FinishedOperatorSubtaskState.INSTANCE);
  op.setCoordinatorState(inline);
  var done = new FullyFinishedOperatorState("done", null, new OperatorID(3, 4), 2, 64);
  var b = new ByteArrayOutputStream();
  Checkpoints.storeCheckpointMetadata(new CheckpointMetadata(12, List.of(op, done), List.of(new MasterState("hook", new byte[]{5}, 1)), CheckpointProperties.forSavepoint(true, SavepointFormatType.NATIVE)), b);
  System.out.println(HexFormat.of().formatHex(b.toByteArray()));
} }
