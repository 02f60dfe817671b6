import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** What the build of the console knows about an address; see pageList in console/vite.config.ts. */
interface BuiltPage {
  /** Such as `/c/$customerId/keys`. */
  readonly path: string
  readonly title: string | null
  /** Navigation and title as HTML without data, or the empty string. */
  readonly frame: string
  /** Scripts and styles of the screen, below `/`. */
  readonly files: readonly string[]
}

interface BuiltPages {
  readonly fonts: readonly string[]
  readonly pages: readonly BuiltPage[]
}

/** The page of the console for each address: one document, with what a browser needs first. */
export class PageList {
  readonly #document: string
  readonly #fonts: readonly string[]
  readonly #pages: readonly (BuiltPage & { readonly pattern: RegExp })[]

  /** @param directory holds `index.html` and `pages.json` */
  constructor(directory: string) {
    this.#document = readFileSync(join(directory, 'index.html'), 'utf8')
    const listPath = join(directory, 'pages.json')
    const built: BuiltPages = existsSync(listPath)
      ? JSON.parse(readFileSync(listPath, 'utf8'))
      : { fonts: [], pages: [] }
    this.#fonts = built.fonts
    this.#pages = built.pages.map(page => ({ ...page, pattern: patternOf(page.path) }))
  }

  /**
   * Returns the document for an address.
   *
   * @param path without its query
   * @param isEntered whether the request has the cookie of a session. Others get no frame: the sign-in takes its place
   */
  documentOf(path: string, isEntered: boolean): string {
    const page = this.#pages.find(({ pattern }) => pattern.test(path))
    if (page === undefined) return this.#document
    const links = [...this.#fonts, ...page.files].map(linkOf).join('\n    ')
    const hasFrame = isEntered && page.frame !== ''
    return this.#document
      .replace('</head>', () => `  ${links}\n  </head>`)
      .replace('<title>', () => (hasFrame ? `<title>${page.title} – ` : '<title>'))
      .replace('<div id="root">', () => (hasFrame ? `<div id="root">${page.frame}` : '<div id="root">'))
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
