; What LLVM calls where code sets or copies memory. With these, the library needs no other one, whichever the platform.

define hidden ptr @memset(ptr %target, i32 %value, i64 %size) nounwind "no-builtins" {
entry:
  %byte = trunc i32 %value to i8
  %first = insertelement <32 x i8> poison, i8 %byte, i64 0
  %bytes = shufflevector <32 x i8> %first, <32 x i8> poison, <32 x i32> zeroinitializer
  br label %blocks

blocks:
  %at = phi i64 [ 0, %entry ], [ %after, %block ]
  %after = add i64 %at, 32
  %fits = icmp ule i64 %after, %size
  br i1 %fits, label %block, label %rest

block:
  %place = getelementptr i8, ptr %target, i64 %at
  store <32 x i8> %bytes, ptr %place, align 1
  br label %blocks

rest:
  %k = phi i64 [ %at, %blocks ], [ %next, %one ]
  %more = icmp ult i64 %k, %size
  br i1 %more, label %one, label %done

one:
  %byte.place = getelementptr i8, ptr %target, i64 %k
  store i8 %byte, ptr %byte.place, align 1
  %next = add i64 %k, 1
  br label %rest

done:
  ret ptr %target
}

define hidden ptr @memcpy(ptr %target, ptr %source, i64 %size) nounwind "no-builtins" {
entry:
  br label %blocks

blocks:
  %at = phi i64 [ 0, %entry ], [ %after, %block ]
  %after = add i64 %at, 32
  %fits = icmp ule i64 %after, %size
  br i1 %fits, label %block, label %rest

block:
  %from = getelementptr i8, ptr %source, i64 %at
  %to = getelementptr i8, ptr %target, i64 %at
  %bytes = load <32 x i8>, ptr %from, align 1
  store <32 x i8> %bytes, ptr %to, align 1
  br label %blocks

rest:
  %k = phi i64 [ %at, %blocks ], [ %next, %one ]
  %more = icmp ult i64 %k, %size
  br i1 %more, label %one, label %done

one:
  %byte.from = getelementptr i8, ptr %source, i64 %k
  %byte.to = getelementptr i8, ptr %target, i64 %k
  %byte = load i8, ptr %byte.from, align 1
  store i8 %byte, ptr %byte.to, align 1
  %next = add i64 %k, 1
  br label %rest

done:
  ret ptr %target
}

; Forwards where the target begins before the source, which memcpy does, too; else backwards, a byte at a time.
define hidden ptr @memmove(ptr %target, ptr %source, i64 %size) nounwind "no-builtins" {
entry:
  %forwards = icmp ule ptr %target, %source
  br i1 %forwards, label %copy, label %backwards

copy:
  %copied = call ptr @memcpy(ptr %target, ptr %source, i64 %size)
  ret ptr %target

backwards:
  %k = phi i64 [ %size, %entry ], [ %next, %one ]
  %more = icmp ne i64 %k, 0
  br i1 %more, label %one, label %done

one:
  %next = sub i64 %k, 1
  %from = getelementptr i8, ptr %source, i64 %next
  %to = getelementptr i8, ptr %target, i64 %next
  %byte = load i8, ptr %from, align 1
  store i8 %byte, ptr %to, align 1
  br label %backwards

done:
  ret ptr %target
}

; What LLVM calls for zeros on macOS, on ARM and on x86-64.
define hidden void @bzero(ptr %target, i64 %size) nounwind "no-builtins" {
  %zeroed = call ptr @memset(ptr %target, i32 0, i64 %size)
  ret void
}

define hidden void @__bzero(ptr %target, i64 %size) nounwind "no-builtins" {
  %zeroed = call ptr @memset(ptr %target, i32 0, i64 %size)
  ret void
}
