import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { useTestApp } from '../harness/use-test-app.ts'

const app = useTestApp()
const assets = fileURLToPath(new URL('../../console/dist/assets/', import.meta.url))
const get = (path: string, headers: Record<string, string> = {}) => fetch(`${app.url}${path}`, { headers })

test('every address of the console gets the same page, with a policy that allows nothing else', async () => {
  for (const path of [
    '/',
    '/welcome',
    '/invite',
    '/c/x/keys',
    '/operator',
    '/operator/log',
    '/status',
    '/oidc',
    '/account',
  ]) {
    const response = await get(path)
    expect([path, response.status]).toEqual([path, 200])
    expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
    expect(response.headers.get('cache-control')).toBe('no-store')
    expect(response.headers.get('x-content-type-options')).toBe('nosniff')
    expect(response.headers.get('referrer-policy')).toBe('no-referrer')
    const policy = response.headers.get('content-security-policy')!
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self' 'nonce-[\w-]{22}'; /)
    expect(policy).toContain("frame-ancestors 'none'")
    const [, nonce] = /nonce-([\w-]{22})/.exec(policy)!
    const page = await response.text()
    expect(page).toContain(`nonce="${nonce}"`)
    expect(page).not.toContain('CSP_NONCE')
    // Only files of this server, and no script in the page itself.
    expect([...page.matchAll(/(?:src|href)="([^"]+)"/g)].filter(([, url]) => !url!.startsWith('/assets/'))).toEqual([])
    expect(page).not.toMatch(/<script(?![^>]*\bsrc=)/)
  }
})

test('each response has a nonce of its own', async () => {
  const nonceOf = async () => (await get('/')).headers.get('content-security-policy')
  expect(await nonceOf()).not.toBe(await nonceOf())
})

test('assets with a hash in their name never change, and arrive compressed', async () => {
  const script = readdirSync(assets).find(name => /^index-[\w-]{8}\.js$/.test(name))!
  const response = await get(`/assets/${script}`, { 'accept-encoding': 'br' })
  expect(response.status).toBe(200)
  expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
  expect(response.headers.get('content-encoding')).toBe('br')
  expect(response.headers.get('content-type')).toContain('javascript')
  const other = await get('/assets/scheme.js')
  expect(other.headers.get('cache-control')).toBe('public, max-age=3600')
})

test('files outside of the assets cannot be read', async () => {
  for (const path of ['/assets/..%2findex.html', '/assets/%2e%2e/manifest.json', '/assets/nothing.js', '/assets/']) {
    const response = await get(path)
    expect([path, response.status]).toEqual([path, 404])
    expect(await response.json()).toMatchObject({ error: { code: 'not_found' } })
  }
})

test('an unknown address is a page for browsers, and JSON for programs', async () => {
  const page = await get('/nothing/here', { accept: 'text/html,*/*' })
  expect(page.status).toBe(404)
  expect(page.headers.get('content-type')).toBe('text/html; charset=utf-8')
  expect(page.headers.get('content-security-policy')).toContain("default-src 'none'")
  expect(await page.text()).toContain('<div id="root">')
  const json = await get('/nothing/here')
  expect([json.status, json.headers.get('content-type')]).toEqual([404, expect.stringContaining('application/json')])
})

test('unknown addresses of the API stay JSON', async () => {
  const response = await get('/v1/nothing', { accept: 'text/html' })
  expect(response.status).toBe(404)
  expect(response.headers.get('content-type')).toContain('application/json')
})
