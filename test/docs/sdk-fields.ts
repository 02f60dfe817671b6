import { readFileSync } from 'node:fs'
import {
  API,
  type Checker,
  type Project,
  SymbolFlags,
  type Type,
  TypeFlags,
  type Symbol as TypeSymbol,
} from 'typescript7/unstable/sync'

/** A field of a request as the type of a vendor's SDK declares it. */
export interface SdkField {
  readonly name: string
  /** A value that the type allows. */
  readonly sample: unknown
}

/** The types of the vendors' SDKs for the bodies of requests. */
const types = {
  chat: "import('openai').OpenAI.ChatCompletionCreateParamsNonStreaming",
  responses: "import('openai').OpenAI.Responses.ResponseCreateParamsNonStreaming",
  messages: "import('@anthropic-ai/sdk').Anthropic.Messages.MessageCreateParamsNonStreaming",
  messagesBeta: "import('@anthropic-ai/sdk').Anthropic.Beta.Messages.MessageCreateParamsNonStreaming",
  gemini: "import('@google/genai').GenerateContentConfig",
} as const
export type SdkType = keyof typeof types

/** Returns the version of an installed package. */
export function sdkVersion(name: string): string {
  const text = readFileSync(new URL(`../../node_modules/${name}/package.json`, import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/** Reads the fields of these types with TypeScript's compiler, in the order of the alphabet. */
export function readSdkFields(): Readonly<Record<SdkType, readonly SdkField[]>> {
  // A project of one file that does not exist: the whole repository would take a gigabyte of memory.
  const root = new URL('../../', import.meta.url).pathname
  const source = Object.entries(types).map(([name, type]) => `export declare const ${name}: ${type}`)
  const files: Readonly<Record<string, string>> = {
    [`${root}sdk-fields.ts`]: source.join('\n'),
    [`${root}tsconfig.sdk-fields.json`]: JSON.stringify({
      compilerOptions: { module: 'nodenext', target: 'esnext', strict: true, skipLibCheck: true, types: ['node'] },
      files: ['sdk-fields.ts'],
    }),
  }
  const api = new API({
    cwd: root,
    fs: { readFile: path => files[path], fileExists: path => (path in files ? true : undefined) },
  })
  try {
    const snapshot = api.updateSnapshot({ openProjects: [`${root}tsconfig.sdk-fields.json`] })
    const project = snapshot.getProjects()[0]!
    return Object.fromEntries(
      Object.keys(types).map(name => [name, fieldsOf(project, `${root}sdk-fields.ts`, name)]),
    ) as Record<SdkType, SdkField[]>
  } finally {
    api.close()
  }
}

function fieldsOf({ checker, program }: Project, file: string, name: string): SdkField[] {
  const declared = checker.resolveName(name, SymbolFlags.Variable, program.getSourceFile(file)!)!
  const type = checker.getTypeOfSymbol(declared)!
  return checker
    .getPropertiesOfType(type)
    .map(property => ({ name: property.name, sample: sampleOf(checker.getTypeOfSymbol(property)!, checker, 0) }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

/** Types refer to themselves. */
const DEPTH_MAX = 6

/** Returns a value of a type: of a union the first member, of an object only what it must have. */
function sampleOf(type: Type, checker: Checker, depth: number): unknown {
  const { flags } = type
  if (type.isUnionType()) {
    const members = type.getTypes().filter(member => (member.flags & (TypeFlags.Undefined | TypeFlags.Null)) === 0)
    const literal = members.find(member => (member.flags & TypeFlags.StringLiteral) !== 0)
    return sampleOf(literal ?? members.at(-1)!, checker, depth)
  }
  if ('value' in type && type.value !== undefined) return type.value
  if (flags & TypeFlags.StringLike) return 'x'
  if (flags & TypeFlags.NumberLike) return 1
  if (flags & TypeFlags.BooleanLike) return true
  if ((flags & TypeFlags.Object) === 0 || depth > DEPTH_MAX) return {}
  if (checker.isArrayType(type)) return [sampleOf(checker.getTypeArguments(type as never)[0]!, checker, depth + 1)]
  const required = checker.getPropertiesOfType(type).filter(isRequired)
  const entries = required.map(
    property => [property.name, sampleOf(checker.getTypeOfSymbol(property)!, checker, depth + 1)] as const,
  )
  return Object.fromEntries(entries)
}

function isRequired({ flags }: TypeSymbol): boolean {
  return (flags & (SymbolFlags.Optional | SymbolFlags.Method)) === 0
}
