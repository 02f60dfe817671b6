import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { formatter } from '@lingui/format-po'
import { compileMessageOrThrow } from '@lingui/message-utils/compileMessage'
import { generateMessageId } from '@lingui/message-utils/generateMessageId'
import { transform } from '@lingui/native-tools'
import type { Plugin } from 'vite'
import { pageLanguage } from '../src/http/console/page-language.ts'
import type { Message } from './src/texts/i18n.ts'
import { sentences, textsOfCodes } from './texts-of-codes.ts'

/** A language other than English, which is in the sources. */
export interface Texts {
  /** What the script sets. */
  readonly texts: NonNullable<typeof globalThis.switchyardTexts>
  /** Such as `assets/texts-zh-Hans-a1b2c3d4.js`. */
  readonly file: string
  /** A classic script: it has run before the modules of the page do. */
  readonly script: string
}

const directory = join(import.meta.dirname, 'src', 'texts')

/** Reads and writes files of texts. */
export const po = formatter({ lineNumbers: false })

/** Reads the files of all languages. */
export function readTexts(): Texts[] {
  const catalogs = readCatalogs()
  const shortIds = shortIdsOf(catalogs)
  return [...catalogs].map(([language, catalog]) => {
    const messages = [...catalog].map(([id, text]) => [shortIds.get(id)!, compiled(text)])
    const codes = Object.entries(textsOfCodes).map(([code, text]) => [code, catalog.get(generateMessageId(text))])
    const said = Object.entries(sentences).flatMap(([code, text]) => {
      const translation = catalog.get(generateMessageId(text))
      return translation === undefined ? [] : [[code, compiled(translation)]]
    })
    const texts = {
      language,
      messages: Object.fromEntries(messages),
      codes: Object.fromEntries(codes),
      sentences: Object.fromEntries(said),
    }
    const script = `globalThis.switchyardTexts=JSON.parse(${JSON.stringify(JSON.stringify(texts))})`
    const hash = createHash('sha256').update(script).digest('hex').slice(0, 8)
    return { texts, file: `assets/texts-${language}-${hash}.js`, script }
  })
}

/** The translations of each language by the id of the text, which is a hash of its English. */
type Catalogs = ReadonlyMap<string, ReadonlyMap<string, string>>

function readCatalogs(): Catalogs {
  return new Map(
    languageNames().map(language => {
      const content = readFileSync(join(directory, `${language}.po`), 'utf8')
      const catalog = po.parse(content, { locale: language, sourceLocale: 'en', filename: `${language}.po` })
      const entries = Object.entries(catalog as Record<string, { translation?: string }>)
      return [language, new Map(entries.flatMap(([id, { translation }]) => (translation ? [[id, translation]] : [])))]
    }),
  )
}

/** Numbers the texts that have a translation: a screen has hundreds of ids, and hashes do not compress. */
function shortIdsOf(catalogs: Catalogs): ReadonlyMap<string, string> {
  const ids = new Set([...catalogs.values()].flatMap(catalog => [...catalog.keys()]))
  return new Map([...ids].sort().map((id, index) => [id, index.toString(36)]))
}

function languageNames(): string[] {
  return readdirSync(directory)
    .filter(name => name.endsWith('.po'))
    .map(name => basename(name, '.po'))
    .sort()
}

/**
 * Compiles the texts that the sources mark with the macros of Lingui, and writes a script of each other language. English
 * stays where it is used, compiled, so that no page loads a catalog or a compiler for it.
 */
export function texts(): Plugin {
  let shortIds = shortIdsOf(readCatalogs())
  return {
    name: 'texts',
    enforce: 'pre',
    buildStart() {
      shortIds = shortIdsOf(readCatalogs())
    },
    config: () => ({ define: { 'import.meta.env.LANGUAGES': JSON.stringify(['en', ...languageNames()]) } }),
    transform: {
      filter: { id: /\/console\/src\/[^?]*\.tsx?$/, code: /@lingui\/(?:core|react)\/macro/ },
      async handler(source, id) {
        const { code, map } = await transform(source, basename(id), {
          macro: {
            descriptorFields: 'message',
            runtimeModules: {
              i18n: [join(directory, 'i18n.ts'), 'i18n'],
              Trans: [join(directory, 'Trans.tsx'), 'Trans'],
            },
          },
        })
        return { code: withCompiledMessages(code, id, shortIds), map: map ?? null }
      },
    },
    generateBundle() {
      if (this.environment.config.build.ssr) return
      for (const { file, script } of readTexts()) this.emitFile({ type: 'asset', fileName: file, source: script })
    },
    // The development server has no gateway that chooses the language.
    configureServer({ middlewares }) {
      middlewares.use('/assets/texts.js', ({ headers }, response) => {
        const all = readTexts()
        const wanted = pageLanguage(headers, ['en', ...all.map(({ texts }) => texts.language)])
        response.setHeader('content-type', 'text/javascript')
        response.end(all.find(({ texts }) => texts.language === wanted)?.script ?? '')
      })
    },
    transformIndexHtml: {
      order: 'pre',
      handler: (_, { server }) =>
        server && [{ tag: 'script', attrs: { src: '/assets/texts.js' }, injectTo: 'head-prepend' }],
    },
  }
}

/** The id of a text: Lingui's hash. */
const ID = /(?<=\/\*i18n\*\/ \{\s*)id: "([\w-]{6})"/g
/** A field of a message descriptor as the transformer prints it. */
const MESSAGE =
  /\bmessage: ("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')(?:,\s*context: ("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'))?/g

/** Replaces each message by what Lingui compiles it to. */
function withCompiledMessages(code: string, file: string, shortIds: ReadonlyMap<string, string>): string {
  const ids = new Set([...code.matchAll(ID)].map(([, id]) => id))
  let found = 0
  const result = code.replace(MESSAGE, (whole, messageLiteral: string, contextLiteral?: string) => {
    const message = stringOf(messageLiteral)
    const id = generateMessageId(message, contextLiteral === undefined ? '' : stringOf(contextLiteral))
    // Another object with a field of this name.
    if (!ids.has(id)) return whole
    found++
    return `message: ${JSON.stringify(compiled(message))}`
  })
  const marked = code.match(/\/\*i18n\*\//g)?.length ?? 0
  if (marked !== found) throw new Error(`${file} has ${marked} texts, but ${found} were compiled`)
  // No language has a text with the empty id.
  return result.replace(ID, (_, id: string) => `id: "${shortIds.get(id) ?? ''}"`)
}

/** @throws for what texts/i18n.ts does not know: numbers and dates come from format/, so that they look alike everywhere */
export function compiled(text: string): Message {
  const tokens = compileMessageOrThrow(text) as Message
  const check = (message: Message) => {
    for (const token of message) {
      if (typeof token === 'string') continue
      const [, type = 'plural', { offset, ...cases } = {}] = token as readonly [string, string?, { offset?: number }?]
      if (type !== 'plural' || offset) throw new Error(`the console knows no ${type} as in: ${text}`)
      for (const each of Object.values(cases as Record<string, Message>)) check(each)
    }
  }
  check(tokens)
  return tokens
}

function stringOf(literal: string): string {
  if (literal.startsWith('"')) return JSON.parse(literal)
  return JSON.parse(`"${literal.slice(1, -1).replaceAll("\\'", "'").replaceAll('"', '\\"')}"`)
}
