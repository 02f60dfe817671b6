import fc from 'fast-check'

const strange = fc.oneof(
  fc.constantFrom<unknown>(null, true, 0, -1, 1.5, '', 'x', [], {}, [null], [[]], [{}], { type: 'x' }, { text: 1 }),
  // Names that every object has, and half a surrogate pair.
  fc.constantFrom<unknown>('__proto__', 'constructor', 'toString', ['hasOwnProperty'], { constructor: 1 }, '\ud800'),
  fc.jsonValue({ maxDepth: 2 }),
)

/** JSON values like `value`, with a few parts replaced, removed or repeated. */
export function mutated(value: object): fc.Arbitrary<unknown> {
  const mutation = fc.record({ at: fc.nat(), kind: fc.constantFrom('replace', 'remove', 'repeat'), by: strange })
  return fc.array(mutation, { minLength: 1, maxLength: 4 }).map(mutations => {
    const copy: unknown = structuredClone(value)
    for (const { at, kind, by } of mutations) {
      const places = placesIn(copy)
      const [parent, key] = places[at % places.length] ?? []
      if (parent === undefined) continue
      if (kind === 'replace') parent[key!] = structuredClone(by)
      else if (Array.isArray(parent)) {
        const [item] = parent.splice(Number(key), 1)
        if (kind === 'repeat') parent.push(item, item)
      } else delete parent[key!]
    }
    return copy
  })
}

type Place = [parent: Record<string, unknown>, key: string]

function placesIn(value: unknown): Place[] {
  if (typeof value !== 'object' || value === null) return []
  const parent = value as Record<string, unknown>
  return Object.keys(parent).flatMap(key => [[parent, key] as Place, ...placesIn(parent[key])])
}
