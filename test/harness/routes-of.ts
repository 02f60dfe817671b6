/**
 * Parses the tree of path prefixes that Fastify's `printRoutes()` returns: `│   ├── sage (GET, HEAD)`. HEAD comes with every GET.
 * Returns routes such as `GET /v1/models/*`.
 */
export function routesOf(tree: string): string[] {
  const prefixes: string[] = []
  return tree.split('\n').flatMap(line => {
    const [, indent, part, methods] = /^((?:│ {3}| {4})*)[├└]── (.*?)(?: \((.+)\))?$/.exec(line) ?? []
    if (indent === undefined || part === undefined) return []
    const depth = indent.length / 4
    prefixes[depth] = (prefixes[depth - 1] ?? '') + part
    const path = prefixes[depth]
    return (methods?.split(', ') ?? []).filter(method => method !== 'HEAD').map(method => `${method} ${path}`)
  })
}
