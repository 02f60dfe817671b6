import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What the build of the console knows about an address; see pageList in console/vite.config.ts. */
interface BuiltPage {
  /** Such as `/c/$customerId/keys`. */
  readonly path: string
  /** By language. */
  readonly shown: Readonly<Record<string, ShownPage>>
  /** Scripts and styles of the screen, below `/`. */
  readonly files: readonly string[]
}

interface ShownPage {
  readonly title: string | null
  /** Navigation and title as HTML without data, or the empty string. */
  readonly frame: string
}

interface BuiltPages {
  readonly fonts: readonly string[]
  /** The script with the texts of each language but English, below `/`. */
  readonly languages: Readonly<Record<string, string>>
  readonly pages: readonly BuiltPage[]
}

/** The page of the console for each address: one document, with what a browser needs first. */
export class PageList {
  /** Of the texts of the console, such as `en` and `zh-Hans`. */
  readonly languages: readonly string[]
  readonly #document: string
  readonly #fonts: readonly string[]
  readonly #languages: Readonly<Record<string, string>>
  readonly #pages: readonly (BuiltPage & { readonly pattern: RegExp })[]

  /** @param directory holds `index.html` and `pages.json` */
  constructor(directory: string) {
    this.#document = readFileSync(join(directory, 'index.html'), 'utf8')
    const listPath = join(directory, 'pages.json')
    const built: BuiltPages = existsSync(listPath)
      ? JSON.parse(readFileSync(listPath, 'utf8'))
      : { fonts: [], languages: {}, pages: [] }
    this.#fonts = built.fonts
    this.#languages = built.languages
    this.languages = ['en', ...Object.keys(built.languages)]
    this.#pages = built.pages.map(page => ({ ...page, pattern: patternOf(page.path) }))
  }

  /**
   * Returns the document for an address.
   *
   * @param path without its query
   * @param language one of `languages`
   * @param isEntered whether the request has the cookie of a session. Others get no frame: the sign-in takes its place
   */
  documentOf(path: string, language: string, isEntered: boolean): string {
    const document = this.#documentIn(language)
    const page = this.#pages.find(({ pattern }) => pattern.test(path))
    if (page === undefined) return document
    const { title, frame } = page.shown[language] ?? { title: null, frame: '' }
    const links = [...this.#fonts, ...page.files].map(linkOf).join('\n    ')
    const hasFrame = isEntered && frame !== ''
    return document
      .replace('</head>', () => `  ${links}\n  </head>`)
      .replace('<title>', () => (hasFrame ? `<title>${title} – ` : '<title>'))
      .replace('<div id="root">', () => (hasFrame ? `<div id="root">${frame}` : '<div id="root">'))
  }

  /** The texts must be there before the first module runs. `defer` keeps that order, and loads them beside the modules. */
  #documentIn(language: string): string {
    const texts = this.#languages[language]
    if (texts === undefined) return this.#document
    return this.#document
      .replace('<html lang="en">', `<html lang="${language}">`)
      .replace('<script type="module"', () => `<script defer src="/${texts}"></script>\n    <script type="module"`)
  }
}

function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll(/\$\w+/g, '[^/]+')}/?$`)
}

function linkOf(file: string): string {
  if (file.endsWith('.js')) return `<link rel="modulepreload" crossorigin href="/${file}">`
  if (file.endsWith('.css')) return `<link rel="stylesheet" crossorigin href="/${file}">`
  return `<link rel="preload" as="font" type="font/woff2" crossorigin href="/${file}">`
}
