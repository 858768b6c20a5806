/**
 * Decorators of ports. A decorator returns a view of an object in which some methods are replaced and never changes the
 * object itself. All other methods run on the object, so that classes with private fields can be decorated.
 */
export function decorate<T extends object>(inner: T, replaced: Partial<T>): T {
  const bound = new WeakMap<object, unknown>();
  return new Proxy(inner, {
    get(target, name) {
      if (Object.hasOwn(replaced, name)) return Reflect.get(replaced, name);
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== "function") return member;
      if (!bound.has(member)) bound.set(member, member.bind(target));
      return bound.get(member);
    },
  });
}
