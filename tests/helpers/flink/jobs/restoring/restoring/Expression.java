package restoring;

import java.util.ArrayList;
import java.util.List;

/** A parsed type expression: `NAME`, `NAME(argument, …)`, `label: NAME(…)` or a quoted text. */
final class Expression {
    final String label;
    final String name;
    final List<Expression> arguments;

    private Expression(String label, String name, List<Expression> arguments) {
        this.label = label;
        this.name = name;
        this.arguments = arguments;
    }

    static Expression parse(String text) {
        Parser parser = new Parser(text);
        Expression all = parser.expression();
        parser.skip();
        if (parser.at < text.length()) {
            throw parser.wrong("the end");
        }
        return all;
    }

    String text(int argument) {
        if (argument >= arguments.size()) {
            throw new IllegalArgumentException(name + " has " + arguments.size() + " arguments");
        }
        return arguments.get(argument).name;
    }

    Class<?> type(int argument) {
        try {
            return Class.forName(text(argument));
        } catch (ClassNotFoundException missing) {
            throw new IllegalArgumentException("no class " + text(argument), missing);
        }
    }

    private static final class Parser {
        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        Expression expression() {
            skip();
            if (at < text.length() && text.charAt(at) == '\'') {
                int end = text.indexOf('\'', at + 1);
                if (end < 0) {
                    throw wrong("a closing quote");
                }
                Expression quoted = new Expression(null, text.substring(at + 1, end), new ArrayList<>());
                at = end + 1;
                return quoted;
            }
            String name = name();
            if (taken(':')) {
                Expression labelled = expression();
                return new Expression(name, labelled.name, labelled.arguments);
            }
            List<Expression> arguments = new ArrayList<>();
            if (taken('(') && !taken(')')) {
                do {
                    arguments.add(expression());
                } while (taken(','));
                if (!taken(')')) {
                    throw wrong("a closing parenthesis");
                }
            }
            return new Expression(null, name, arguments);
        }

        private String name() {
            int start = at;
            while (at < text.length() && (Character.isJavaIdentifierPart(text.charAt(at)) || text.charAt(at) == '.')) {
                at++;
            }
            if (start == at) {
                throw wrong("a name");
            }
            return text.substring(start, at);
        }

        private boolean taken(char wanted) {
            skip();
            boolean there = at < text.length() && text.charAt(at) == wanted;
            at += there ? 1 : 0;
            return there;
        }

        private void skip() {
            while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
                at++;
            }
        }

        private IllegalArgumentException wrong(String expected) {
            return new IllegalArgumentException(expected + " is expected at " + at + " of: " + text);
        }
    }
}
