import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { generateMessageId } from '@lingui/message-utils/generateMessageId'
import { extractMessagesFromFiles } from '@lingui/native-tools'
import { sentences, textsOfCodes } from './texts-of-codes.ts'
import { po } from './texts-plugin.ts'

const root = import.meta.dirname
const directory = join(root, 'src', 'texts')

/** A text of the console. */
export interface Text {
  readonly id: string
  readonly message: string
  readonly context?: string
  /** The expressions of the placeholders without a name. */
  readonly placeholders: Readonly<Record<string, readonly string[]>>
  /** The files that use it, below console/. */
  readonly files: readonly string[]
}

export interface Translation {
  readonly message?: string
  readonly translation: string
}

/** Returns the texts that the sources mark, in the order of files and lines, and those of codes. */
export async function readSources(): Promise<readonly Text[]> {
  const files = globSync('src/**/*.{ts,tsx}', { cwd: root }).sort()
  const { messages, warnings } = await extractMessagesFromFiles(files.map(file => join(root, file)))
  if (warnings.length > 0) throw new Error(warnings.join('\n'))
  const found = new Map<string, Text>()
  for (const { id, message = id, context, placeholders, origin } of messages) {
    const before = found.get(id)
    const file = origin!.filename.slice(root.length + 1)
    found.set(id, {
      id,
      message,
      ...(context !== undefined && { context }),
      placeholders: {
        ...before?.placeholders,
        ...Object.fromEntries(Object.entries(placeholders).map(([name, value]) => [name, [value]])),
      },
      files: [...new Set([...(before?.files ?? []), file])],
    })
  }
  for (const message of [...Object.values(textsOfCodes), ...Object.values(sentences)]) {
    const id = generateMessageId(message)
    const { files = [], placeholders = {} } = found.get(id) ?? {}
    found.set(id, { id, message, placeholders, files: [...files, 'texts-of-codes.ts'] })
  }
  return [...found.values()]
}

/** The names of the languages that have a file. */
export function translatedLanguages(): string[] {
  return globSync('*.po', { cwd: directory })
    .map(name => basename(name, '.po'))
    .sort()
}

/** Returns the file of a language. */
export function readFile(language: string): string {
  return readFileSync(join(directory, `${language}.po`), 'utf8')
}

export function writeFile(language: string, content: string): void {
  writeFileSync(join(directory, `${language}.po`), content)
}

/** Returns the translations of a file by the id of the text. */
export function translationsOf(language: string, content: string): Readonly<Record<string, Translation>> {
  return po.parse(content, { locale: language, sourceLocale: 'en', filename: `${language}.po` }) as Record<
    string,
    Translation
  >
}

/** Returns a file with exactly the texts of the sources, with the translations that it has. */
export async function withTexts(language: string, content: string, texts: readonly Text[]): Promise<string> {
  const before = translationsOf(language, content)
  const catalog = Object.fromEntries(
    texts.map(({ id, message, context, placeholders, files }) => [
      id,
      {
        message,
        ...(context !== undefined && { context }),
        translation: before[id]?.translation ?? '',
        placeholders,
        origin: files.map(file => [file]),
      },
    ]),
  )
  const existing =
    content.trim() === ''
      ? `msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=utf-8\\n"\n"Language: ${language}\\n"\n`
      : content
  return po.serialize(catalog as never, { locale: language, sourceLocale: 'en', filename: `${language}.po`, existing })
}
