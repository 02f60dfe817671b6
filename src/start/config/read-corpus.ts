import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import type { ConfigProblem } from './read-yaml.ts'

/** All texts are kept in memory. */
const BYTES_MAX = 16_777_216
/** With fewer texts, the prompts that are written in their manner are all alike. */
const TEXTS_MIN = 3

/**
 * Reads the texts of `trust.corpus_file`: a file, or the .txt and .md files of a folder. A line that is only `---` divides two texts. Adds to
 * `problems` and returns nothing when they cannot be used. The messages repeat no text.
 */
export function readCorpus(path: string, problems: ConfigProblem[]): readonly string[] {
  const refuse = (where: string, message: string) => {
    problems.push({ where, line: null, key: null, message })
    return []
  }
  const texts: string[] = []
  let left = BYTES_MAX
  let where = path
  try {
    for (const file of filesOf(path)) {
      where = file
      left -= statSync(file).size
      if (left < 0) return refuse(path, `has more than ${BYTES_MAX} bytes`)
      const text = new TextDecoder('utf-8', { fatal: true }).decode(readFileSync(file))
      texts.push(
        ...text
          .split(/^---[ \t]*\r?$/m)
          .map(part => part.trim())
          .filter(part => part !== ''),
      )
    }
  } catch (error) {
    return refuse(where, error instanceof TypeError ? 'is not UTF-8 text' : `cannot be read: ${systemErrorText(error)}`)
  }
  const message = `must have at least ${TEXTS_MIN} texts, divided by lines of ---`
  return texts.length < TEXTS_MIN ? refuse(path, message) : texts
}

function filesOf(path: string): string[] {
  if (!statSync(path).isDirectory()) return [path]
  const names = readdirSync(path, { recursive: true, encoding: 'utf8' }).filter(name => /\.(txt|md)$/i.test(name))
  return names.sort().map(name => join(path, name))
}
