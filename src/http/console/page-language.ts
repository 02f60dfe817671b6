import type { IncomingHttpHeaders } from 'node:http'

/** A browser sends its few languages first. */
const TAGS_MAX = 20

/**
 * Returns the language of a page: the one that was chosen in the console, otherwise the first one of the browser that
 * there is, otherwise English.
 *
 * @param languages such as `en` and `zh-Hans`
 */
export function pageLanguage(headers: IncomingHttpHeaders, languages: readonly string[]): string {
  const chosen = /(?:^|;\s*)sy_language=([\w-]+)/.exec(headers.cookie ?? '')?.[1]
  if (chosen !== undefined && languages.includes(chosen)) return chosen
  for (const tag of acceptedTags(headers['accept-language'] ?? '')) {
    const found = bestFit(tag, languages)
    if (found !== undefined) return found
  }
  return 'en'
}

/** Returns the tags of the header, the one that is wanted most first. */
function acceptedTags(header: string): string[] {
  return header
    .split(',', TAGS_MAX)
    .map(part => {
      const [tag = '', weight] = part.split(';')
      return { tag: tag.trim(), q: weight === undefined ? 1 : Number(/q=([\d.]+)/.exec(weight)?.[1] ?? 0) }
    })
    .filter(({ q }) => q > 0)
    .sort((a, b) => b.q - a.q)
    .map(({ tag }) => tag)
}

/** `zh-CN` and `zh` are written as `zh-Hans`, and `zh-TW` as `zh-Hant`. Readers of one script get the other before English. */
function bestFit(tag: string, languages: readonly string[]): string | undefined {
  const wanted = maximized(tag)
  if (wanted === undefined) return undefined
  const spoken = languages.filter(language => maximized(language)?.language === wanted.language)
  return spoken.find(language => maximized(language)?.script === wanted.script) ?? spoken[0]
}

function maximized(tag: string): Intl.Locale | undefined {
  try {
    return new Intl.Locale(tag).maximize()
  } catch {
    // `*`, or no tag at all.
    return undefined
  }
}
