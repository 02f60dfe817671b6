import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import react from '@vitejs/plugin-react'
import { defineConfig, type Plugin } from 'vite'

const GATEWAY = 'http://127.0.0.1:8080'

export default defineConfig({
  plugins: [react(), compressed()],
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
  server: { host: '127.0.0.1', proxy: Object.fromEntries(['/console/api', '/v1'].map(path => [path, GATEWAY])) },
})

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
