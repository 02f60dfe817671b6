import fc from 'fast-check'

/** A JSON schema as it occurs in /openapi.json. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string
  readonly const?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly JsonSchema[]
  readonly oneOf?: readonly JsonSchema[]
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: readonly string[]
  readonly items?: JsonSchema
  readonly minItems?: number
  readonly pattern?: string
  readonly minLength?: number
  readonly minimum?: number
  readonly exclusiveMinimum?: number
  readonly maximum?: number
}

const noise = fc.jsonValue({ maxDepth: 1, stringUnit: 'binary' })
const noisy = (arbitrary: fc.Arbitrary<unknown>) => fc.oneof({ arbitrary, weight: 60 }, { arbitrary: noise, weight: 1 })

/**
 * Generates values that a schema allows, apart from a share of nodes that are any JSON.
 *
 * @param resolve returns the schema of a reference
 * @param known values for the strings and arrays of these properties, which their schema does not say
 */
export function schemaArbitrary(
  schema: JsonSchema,
  resolve: (ref: string) => JsonSchema,
  known: Readonly<Record<string, fc.Arbitrary<unknown>>> = {},
): fc.Arbitrary<unknown> {
  function of(node: JsonSchema): fc.Arbitrary<unknown> {
    if (node.$ref !== undefined) return of(resolve(node.$ref))
    if ('const' in node) return fc.constant(node.const)
    if (node.enum !== undefined) return noisy(fc.constantFrom(...node.enum))
    const branches = node.anyOf ?? node.oneOf
    if (branches !== undefined) return fc.oneof(...branches.map(of))
    switch (node.type) {
      case 'null':
        return fc.constant(null)
      case 'boolean':
        return noisy(fc.boolean())
      case 'integer':
        return noisy(fc.oneof(fc.integer(bounds(node)), fc.integer(bounds({ ...node, maximum: 64 }))))
      case 'number':
        return noisy(fc.double({ ...bounds(node), noNaN: true, noDefaultInfinity: true }))
      case 'string':
        return noisy(
          node.pattern === undefined
            ? fc.string({ minLength: node.minLength ?? 0, maxLength: 40, unit: 'binary' })
            : fc.stringMatching(new RegExp(node.pattern), { maxLength: 40 }),
        )
      case 'array':
        return noisy(fc.array(of(node.items ?? {}), { minLength: node.minItems ?? 0, maxLength: 3 }))
      case 'object':
        return noisy(objectOf(node))
      default:
        return noise
    }
  }

  function objectOf({ properties = {}, required = [] }: JsonSchema): fc.Arbitrary<unknown> {
    const fields = Object.entries(properties).map(([name, field]) => [name, known[name] ?? of(field)] as const)
    const [fixed, optional] = [true, false].map(isRequired =>
      Object.fromEntries(fields.filter(([name]) => required.includes(name) === isRequired)),
    ) as [Record<string, fc.Arbitrary<unknown>>, Record<string, fc.Arbitrary<unknown>>]
    // With every optional field in half of the objects, hardly one would be valid.
    const some = fc.subarray(Object.keys(optional), { maxLength: Math.min(4, Object.keys(optional).length) })
    return some.chain(names =>
      fc.record({ ...fixed, ...Object.fromEntries(names.map(name => [name, optional[name]!])) }),
    )
  }

  return of(schema)
}

function bounds({ minimum, exclusiveMinimum, maximum }: JsonSchema): { min: number; max: number } {
  const min = minimum ?? exclusiveMinimum ?? -(2 ** 31)
  return { min, max: Math.max(min, Math.min(maximum ?? 2 ** 31 - 1, 2 ** 31 - 1)) }
}
