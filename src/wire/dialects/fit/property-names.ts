import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/** The client's names of a tool's properties, by those that the server got. */
export type PropertyNames = ReadonlyMap<string, string>

/**
 * Returns parameters with names of properties that a vendor accepts, and the client's names. Only the top is checked:
 * names further inside may be any (aws-solutions-library-samples issue 709).
 *
 * @param fit makes another name of one that is refused
 */
export function fitPropertyNames(
  parameters: JsonObject,
  accepted: RegExp,
  fit: (name: string) => string,
): { readonly parameters: JsonObject; readonly names: PropertyNames | null } {
  const { properties, required } = parameters
  if (!isJsonObject(properties)) return { parameters, names: null }
  const given = Object.keys(properties)
  if (given.every(name => accepted.test(name))) return { parameters, names: null }
  const sentOf = new Map(given.map(name => [name, accepted.test(name) ? name : fit(name)]))
  const renamed = Object.entries(properties).map(([name, schema]) => [sentOf.get(name), schema])
  return {
    parameters: {
      ...parameters,
      properties: Object.fromEntries(renamed),
      ...(Array.isArray(required) && { required: required.map(name => sentOf.get(name) ?? name) }),
    },
    names: new Map([...sentOf].filter(([name, sent]) => name !== sent).map(([name, sent]) => [sent, name])),
  }
}

/** Gives the properties of arguments other names. What is no object stays as it is. */
export function renameProperties(args: unknown, names: PropertyNames): unknown {
  if (!isJsonObject(args)) return args
  return Object.fromEntries(Object.entries(args).map(([name, value]) => [names.get(name) ?? name, value]))
}

/** The same for arguments as a text. */
export function renameArguments(text: string, names: PropertyNames): string {
  try {
    return JSON.stringify(renameProperties(JSON.parse(text), names))
  } catch {
    return text
  }
}
