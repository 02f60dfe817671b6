import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { build, defineConfig, type Plugin } from 'vite'
import type * as Prerender from './src/prerender/render-frame.tsx'
import type { ScreenPage } from './src/prerender/screens.ts'
import { readTexts, type Texts, texts } from './texts-plugin.ts'

const GATEWAY = 'http://127.0.0.1:8080'

export default defineConfig({
  plugins: [texts(), react(), woff2Only(), pageList(), compressed()],
  // The gateway replaces this text in each response. src/http/console/console-pages.ts has it too.
  html: { cspNonce: 'CSP_NONCE' },
  build: {
    target: 'es2023',
    outDir: 'dist',
    manifest: 'manifest.json',
    // The content security policy allows no data: URLs of scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  // `npx vite console` serves the sources, with the data of a gateway that runs on this machine.
  server: {
    host: '127.0.0.1',
    proxy: Object.fromEntries(['/console/api', '/v1', '/status.json'].map(path => [path, GATEWAY])),
  },
})

/** KaTeX brings each font in two more formats, for browsers that do not run the console at all: 1 MB. */
function woff2Only(): Plugin {
  return {
    name: 'woff2-only',
    enforce: 'pre',
    transform: (code, id) =>
      id.endsWith('katex.min.css') ? code.replace(/,url\([^)]*\) format\("(?:woff|truetype)"\)/g, '') : null,
  }
}

/**
 * Writes pages.json: for each screen its title, its frame as HTML, and the files that index.html does not name. The gateway puts
 * them into the page, so that a browser paints before the scripts run, and loads the files of the screen at once.
 */
function pageList(): Plugin {
  let root: string
  let dist: string
  return {
    name: 'page-list',
    apply: ({ build }, { command }) => command === 'build' && !build?.ssr,
    configResolved(config) {
      root = config.root
      dist = join(root, config.build.outDir)
    },
    async closeBundle() {
      const translated = readTexts()
      const frames = await prerendered(root, dist, [undefined, ...translated])
      const manifest: Record<string, Chunk> = JSON.parse(readFileSync(join(dist, 'manifest.json'), 'utf8'))
      const entry = filesOf(manifest, 'index.html')
      const pages = frames.map(({ path, modules, shown }) => {
        const files = modules.map(module => filesOf(manifest, `src/${module}`))
        const added = [...new Set(files.flatMap(each => [...each]))].filter(file => !entry.has(file))
        return { path, shown, files: added }
      })
      const fonts = readdirSync(join(dist, 'assets'))
        .filter(name => /(?:next-latin-wght-normal|plain-zero).*\.woff2$/.test(name))
        .map(name => `assets/${name}`)
      const languages = Object.fromEntries(translated.map(({ texts, file }) => [texts.language, file]))
      writeFileSync(join(dist, 'pages.json'), JSON.stringify({ fonts, languages, pages }))
    },
  }
}

interface Chunk {
  readonly file: string
  readonly imports?: readonly string[]
  readonly css?: readonly string[]
}

/** Returns the files that a browser loads for a chunk. */
function filesOf(manifest: Record<string, Chunk>, name: string, found = new Set<string>()): Set<string> {
  const chunk = manifest[name]
  if (chunk === undefined)
    throw new Error(`${name} is not a chunk: prerender/screens.ts names another file than router.tsx`)
  if (found.has(chunk.file)) return found
  for (const file of [chunk.file, ...(chunk.css ?? [])]) found.add(file)
  for (const each of chunk.imports ?? []) filesOf(manifest, each, found)
  return found
}

/**
 * Draws the frames of all screens in each language. Compiles their components for Node, with the class names that they have
 * in browsers.
 */
async function prerendered(root: string, dist: string, languages: readonly (Texts | undefined)[]) {
  // Inside of the project, where Node finds its packages.
  const outDir = mkdtempSync(join(dist, '.prerender-'))
  try {
    await build({
      root,
      configFile: false,
      logLevel: 'warn',
      plugins: [texts(), react()],
      build: { ssr: 'src/prerender/render-frame.tsx', outDir, assetsInlineLimit: 0 },
    })
    const [file] = readdirSync(outDir).filter(name => /\.m?js$/.test(name))
    const drawn: {
      language: string
      screens: readonly ScreenPage[]
      shown: { title: string | null; frame: string }[]
    }[] = []
    for (const each of languages) {
      globalThis.switchyardTexts = each?.texts
      const language = each?.texts.language ?? 'en'
      // Texts are also constants of modules: each language gets modules of its own.
      const { screens, renderFrame }: typeof Prerender = await import(`${join(outDir, file!)}?${language}`)
      const shown = screens.map(screen => ({ title: screen.title, frame: renderFrame(screen) }))
      drawn.push({ language, screens, shown })
    }
    return drawn[0]!.screens.map(({ path, modules }, index) => ({
      path,
      modules,
      shown: Object.fromEntries(drawn.map(({ language, shown }) => [language, shown[index]!])),
    }))
  } finally {
    rmSync(outDir, { recursive: true, force: true })
  }
}

/** Writes a .br and a .gz next to each asset, so that the gateway never compresses. */
function compressed(): Plugin {
  let assets: string
  return {
    name: 'compressed',
    apply: 'build',
    configResolved({ root, build: { outDir } }) {
      assets = join(root, outDir, 'assets')
    },
    closeBundle() {
      for (const name of readdirSync(assets).filter(name => /\.(?:js|css|svg)$/.test(name))) {
        const content = readFileSync(join(assets, name))
        writeFileSync(join(assets, `${name}.br`), brotliCompressSync(content))
        writeFileSync(join(assets, `${name}.gz`), gzipSync(content, { level: 9 }))
      }
    },
  }
}
