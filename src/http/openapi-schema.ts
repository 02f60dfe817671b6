import { type ZodType, z } from 'zod'

export type Json = Record<string, unknown>

/** Describes a response header. */
export const header = (type: string, description: string) => ({ description, schema: { type } })

/**
 * Returns the OpenAPI media type of a body, with the example of its schema if it has one. Parts with an id
 * move to `schemas`.
 */
export function media(schema: ZodType, schemas: Record<string, Json>): Json {
  const { examples, ...rest } = jsonSchema(schema, schemas, 'input')
  const named = typeof rest.$ref === 'string' ? schemas[rest.$ref.slice(COMPONENTS.length)]?.examples : examples
  const [example] = Array.isArray(named) ? named : []
  return { schema: rest, ...(example !== undefined && { example }) }
}

const COMPONENTS = '#/components/schemas/'

/**
 * Returns the JSON schema of `schema`. Parts with an id in their metadata move to `schemas` and are
 * referenced.
 */
export function jsonSchema(schema: ZodType, schemas: Record<string, Json>, io: 'input' | 'output'): Json {
  const raw = z.toJSONSchema(schema, {
    target: 'draft-2020-12',
    io,
    unrepresentable: 'any',
    override({ jsonSchema: node }) {
      // Zod limits every integer to the exact range of a double. The API has no such limit.
      if (node.maximum === Number.MAX_SAFE_INTEGER) delete node.maximum
      if (node.minimum === Number.MIN_SAFE_INTEGER) delete node.minimum
    },
  })
  const {
    $schema: _,
    $defs = {},
    ...root
  } = JSON.parse(JSON.stringify(raw).replaceAll('"$ref":"#/$defs/', `"$ref":"${COMPONENTS}`)) as Json & {
    $defs?: Record<string, Json>
  }
  for (const [name, { id: _id, ...definition }] of Object.entries($defs)) schemas[name] = definition
  const id = schema.meta()?.id
  if (id === undefined || root.$ref !== undefined) return root
  const { id: _id, ...definition } = root
  schemas[id] = definition
  return { $ref: `${COMPONENTS}${id}` }
}
