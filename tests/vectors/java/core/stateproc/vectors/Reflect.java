package stateproc.vectors;

import java.lang.reflect.Array;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Reaches classes that are not public or do not exist in every release, by name. */
final class Reflect {
    private Reflect() {}

    @SuppressWarnings("unchecked")
    static <T> T create(String className, Object... arguments) throws Exception {
        Constructor<?> constructor =
                (Constructor<?>) fitting(Class.forName(className).getDeclaredConstructors(), null, arguments);
        return (T) constructor.newInstance(arguments);
    }

    @SuppressWarnings("unchecked")
    static <T> T call(Object target, String name, Object... arguments) throws Exception {
        List<Method> methods = new ArrayList<>();
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            methods.addAll(Arrays.asList(type.getDeclaredMethods()));
        }
        return (T) ((Method) fitting(methods.toArray(new Method[0]), name, arguments)).invoke(target, arguments);
    }

    @SuppressWarnings("unchecked")
    static <T> T callStatic(String className, String name, Object... arguments) throws Exception {
        Method method = (Method) fitting(Class.forName(className).getDeclaredMethods(), name, arguments);
        return (T) method.invoke(null, arguments);
    }

    @SuppressWarnings("unchecked")
    static <T> T constant(String className, String name) throws Exception {
        Field field = Class.forName(className).getDeclaredField(name);
        field.setAccessible(true);
        return (T) field.get(null);
    }

    @SuppressWarnings("unchecked")
    static <T> T field(Object target, String name) throws Exception {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return (T) field.get(target);
                }
            }
        }
        throw new NoSuchFieldException(target.getClass().getName() + "." + name);
    }

    static boolean exists(String className) {
        try {
            Class.forName(className, false, Reflect.class.getClassLoader());
            return true;
        } catch (ClassNotFoundException | LinkageError missing) {
            return false;
        }
    }

    static boolean isA(Object value, String className) throws Exception {
        return exists(className) && Class.forName(className).isInstance(value);
    }

    private static Executable fitting(Executable[] candidates, String name, Object[] arguments) throws Exception {
        for (Executable candidate : candidates) {
            if ((name == null || candidate.getName().equals(name)) && fits(candidate, arguments)) {
                candidate.setAccessible(true);
                return candidate;
            }
        }
        throw new NoSuchMethodException((name == null ? "constructor" : name) + " for " + Arrays.toString(arguments));
    }

    private static boolean fits(Executable candidate, Object[] arguments) {
        Class<?>[] types = candidate.getParameterTypes();
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            Class<?> type = types[i].isPrimitive() ? Array.get(Array.newInstance(types[i], 1), 0).getClass() : types[i];
            if (arguments[i] == null ? types[i].isPrimitive() : !type.isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }
}
