import { existsSync, globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { type ErrorCode, errorTable } from '../../src/base/domain/errors.ts'
import { readAddressRange } from '../../src/base/runtime/client-address.ts'
import { credentialOf } from '../../src/identity/auth/authenticator.ts'
import { loadConfig } from '../../src/start/config/config.ts'
import { environmentSchema, fileSchema } from '../../src/start/config/schema.ts'
import { readPage } from './page.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const samples = globSync('deploy/**/*.*', { cwd: root }).concat('deploy/Dockerfile', 'deploy/Caddyfile').sort()
const settings = [...readPage('docs/config.md').matchAll(/^\| `([a-z_]+[.[][^`]+)` +\|/gm)].map(([, name]) => name!)
/** The variables that the gateway reads, and those of Node and the shell. */
const variables = [...Object.keys(environmentSchema.shape), 'NODE_COMPILE_CACHE', 'PATH']
const defaults = loadConfig({ env: {}, cwd: '/' })
const drainAndMoreS = defaults.server.drainDelaySeconds + defaults.server.drainSeconds + 30
const totalS =
  fileSchema.parse({
    endpoints: [
      {
        name: 'x',
        kind: 'local',
        base_url: 'http://a',
        models: [{ id: 'm', price_per_million_usd: { input: '0', output: '0' } }],
      },
    ],
  }).endpoints[0]!.timeouts.total_ms / 1000

interface Compose {
  services: Record<string, Service>
  volumes: Record<string, null>
  secrets: Record<string, { file: string }>
}
interface Service {
  environment?: Record<string, string>
  build?: { context: string; dockerfile: string }
  volumes?: string[]
  depends_on?: string[] | Record<string, { condition: string }>
  stop_grace_period?: string
  healthcheck?: { test: string[] }
  secrets?: string[]
  mem_limit?: string
  networks?: Record<string, { ipv4_address: string }>
}

interface Traefik {
  http: {
    services: Record<string, { loadBalancer: { servers: { url: string }[] } }>
    middlewares: { unsent: { retry: object } }
    serversTransports: { nodes: { forwardingTimeouts: { responseHeaderTimeout: string } } }
  }
}

const compose = parse(readPage('deploy/compose.yaml'), { merge: true }) as Compose
const gateways = Object.entries(compose.services).filter(([name]) => name.startsWith('gateway-'))

test('docs/operating.md links every sample, with the pages about Kubernetes and high availability', () => {
  const page = ['operating', 'kubernetes', 'high-availability'].map(name => readPage(`docs/${name}.md`)).join()
  // Only Docker reads the ignore file, and the pages link the folders of the chart and of its values.
  const shown = samples.filter(
    path => !/\.dockerignore$|^deploy\/helm\/(switchyard\/(Chart|templates)|values\/)/.test(path),
  )
  expect(shown).toEqual(
    expect.arrayContaining(['deploy/compose.yaml', 'deploy/nginx.conf', 'deploy/switchyard.service']),
  )
  expect(shown.filter(path => !page.includes(`](../${path})`))).toEqual([])
})

test.each(samples)('%s refers only to settings that exist', path => {
  const named = readPage(path).matchAll(
    /\b((?:server|endpoints\[\]|postgres|log|hosters|reports|routing)\.[a-z_.]+[a-z])/g,
  )
  const wrong = [...named]
    .map(([, name]) => name!)
    // Files and hosts, as in server.ts, are none.
    .filter(name => !settings.includes(name))
  expect(wrong).toEqual([])
})

describe('compose.yaml', () => {
  test('sets only variables that are read, the same for all gateways', () => {
    expect(gateways.length).toBeGreaterThan(1)
    for (const [, { environment }] of gateways) {
      expect(environment).toEqual(gateways[0]![1].environment)
      expect(Object.keys(environment!).filter(name => !variables.includes(name.replace(/_FILE$/, '')))).toEqual([])
    }
  })

  test('keeps secrets in files, and names no file that it does not mount', () => {
    const declared = Object.entries(compose.secrets).map(([name, { file }]) => [name, file])
    expect(declared).toEqual(Object.keys(compose.secrets).map(name => [name, `./secrets/${name}`]))
    for (const [name, { environment, secrets }] of Object.entries(compose.services)) {
      const named = Object.entries(environment ?? {}).filter(([variable]) => variable.endsWith('_FILE'))
      expect(named.map(([, path]) => path).sort(), name).toEqual((secrets ?? []).map(s => `/run/secrets/${s}`).sort())
    }
    expect(JSON.stringify(compose)).not.toContain('${')
  })

  test('limits the memory of each service, and lets a gateway write only to its volume and /tmp', () => {
    for (const [name, { mem_limit }] of Object.entries(compose.services)) expect(mem_limit, name).toMatch(/^\d+[mg]$/)
    for (const [name, gateway] of gateways)
      expect(gateway, name).toMatchObject({ read_only: true, tmpfs: '/tmp', cap_drop: ['ALL'] })
  })

  test('gives each gateway its own data volume and time to drain', () => {
    const kept = gateways.map(([, { volumes }]) => volumes!.find(volume => volume.endsWith(`:${dataDirectory()}`)))
    expect(new Set(kept).size).toBe(gateways.length)
    expect(kept.map(volume => volume!.split(':')[0]!).filter(name => !(name in compose.volumes))).toEqual([])
    for (const name of [...gateways.map(([gateway]) => gateway), 'nginx'])
      expect(compose.services[name]!.stop_grace_period, name).toBe(`${drainAndMoreS}s`)
  })

  test('starts nginx when the gateways are ready, at the address that they trust', () => {
    const { nginx } = compose.services
    const conditions = Object.fromEntries(gateways.map(([name]) => [name, { condition: 'service_healthy' }]))
    expect(nginx!.depends_on).toEqual(conditions)
    for (const [, { healthcheck }] of gateways) expect(healthcheck!.test.join(' ')).toContain('/readyz')
    const { server } = fileSchema.parse(parse(readPage('deploy/switchyard.yaml')))
    const { trusted_proxies: trusted } = server
    expect(trusted).toEqual([readAddressRange(nginx!.networks!.default!.ipv4_address)])
  })

  test('builds the Dockerfile and mounts files that exist', () => {
    for (const [, { build }] of gateways) expect(build).toEqual({ context: '..', dockerfile: 'deploy/Dockerfile' })
    const files = Object.values(compose.services).flatMap(({ volumes = [] }) => volumes.filter(v => v.startsWith('./')))
    expect([...new Set(files.map(file => file.split(':')[0]!.slice(2)))]).toEqual(['switchyard.yaml', 'nginx.conf'])
  })
})

describe('Dockerfile', () => {
  const lines = readPage('deploy/Dockerfile').split('\n')

  test('copies only files that exist and are not ignored', () => {
    const copied = lines.filter(line => /^COPY (?!--from)/.test(line)).flatMap(line => line.split(' ').slice(1, -1))
    const wanted = readPage('deploy/Dockerfile.dockerignore').split('\n')
    const isWanted = (path: string) =>
      wanted.some(line => line === `!${path}` || (line.startsWith('!') && path.startsWith(`${line.slice(1)}/`)))
    expect(copied.filter(path => !existsSync(`${root}${path}`) || !isWanted(path))).toEqual([])
    // What the programs read when they run.
    expect(copied).toEqual(expect.arrayContaining(['package.json', 'bin', 'sql', 'src']))
  })

  test('installs the library that the pinned Node needs, in each image that runs it', () => {
    // The slim images of Debian do not have it.
    for (const image of ['FROM node:', 'FROM debian:'])
      expect(lines.slice(lines.findIndex(line => line.includes(image))).join('\n')).toMatch(
        /^FROM .*\n(?:#.*\n)?RUN apt-get .* libatomic1/,
      )
  })

  test('starts the gateway with bin/switchyard, with variables that are read', () => {
    expect(lines).toContain('ENTRYPOINT ["/opt/switchyard/bin/switchyard"]')
    expect(lines).toContain('CMD ["start"]')
    const variablesSet = lines
      .filter(line => line.startsWith('ENV '))
      .flatMap(line => line.match(/\b[A-Z_]{4,}(?==)/g) ?? [])
    expect(variablesSet.filter(name => !variables.includes(name))).toEqual([])
  })
})

describe('nginx.conf', () => {
  const text = readPage('deploy/nginx.conf')
  const directives = directivesOf(text)
  const argumentsOf = (name: string) =>
    directives
      .find(([first]) => first === name)
      ?.slice(1)
      .join(' ')

  test('sends each key to one gateway of compose.yaml, and to another if that one refuses', () => {
    const nodes = gateways.map(([name]) => `${name}:${defaults.server.port}`)
    const servers = directives.filter(([name, address]) => name === 'server' && address)
    expect(servers.map(([, address]) => address)).toEqual([...nodes, ...nodes, ...nodes])
    // The upstreams for refused requests and for agents never exclude a node. Otherwise an outage of the database would become a 502.
    expect(servers.slice(nodes.length).map(([, , failures]) => failures)).toEqual(
      [...nodes, ...nodes].map(() => 'max_fails=0'),
    )
    expect(directives.filter(([name]) => name === 'hash').map(([, key]) => key)).toEqual([
      '$switchyard_key',
      '$switchyard_key',
    ])
  })

  test('forwards the address of the connection in every location, and looks names up again', () => {
    const forwarded = directives.filter(([name, header]) => name === 'proxy_set_header' && header === 'X-Forwarded-For')
    // A location with a proxy_set_header inherits none.
    const blocks = text.split(/^ {4}location /m).filter(block => block.includes('proxy_set_header'))
    expect(forwarded.map(([, , value]) => value)).toEqual(blocks.map(() => '$remote_addr'))
    const servers = directives.filter(([name, address]) => name === 'server' && address)
    expect(servers.filter(each => each.at(-1) !== 'resolve')).toEqual([])
    expect(argumentsOf('resolver')).toContain('valid=')
  })

  test('passes streams, long answers and large bodies, and repeats only refused requests', () => {
    expect(argumentsOf('proxy_buffering')).toBe('off')
    expect(Number.parseInt(argumentsOf('proxy_read_timeout')!, 10)).toBeGreaterThan(totalS)
    expect(Number.parseInt(argumentsOf('client_max_body_size')!, 10) * 1024 ** 2).toBeGreaterThan(
      defaults.server.bodyLimitBytes,
    )
    // A broken connection together with `non_idempotent` would send a POST again that may have been charged.
    expect(
      directives.filter(([name]) => name === 'proxy_next_upstream').map(([, ...kinds]) => kinds.join(' ')),
    ).toEqual(['error timeout', 'http_503 non_idempotent', 'error timeout'])
    // nginx must not replace the gateway's own 504.
    const caught = directives.filter(([name]) => name === 'error_page').map(([, status]) => Number(status))
    expect(caught.filter(status => status !== 503 && status >= 500)).toEqual([502, 502, 502])
    expect(Object.values(errorTable).filter(({ status }) => status === 502)).toEqual([])
    // The Host header of the client could be a name that the gateway does not know.
    expect(directives.filter(([name]) => name === 'proxy_set_header').map(([, header]) => header)).toEqual([
      ...['Connection', 'Upgrade', 'X-Forwarded-For'],
      // WebSockets of agents.
      ...['Upgrade', 'Connection', 'X-Forwarded-For'],
    ])
  })
})

test('the error bodies of nginx, Caddy and HAProxy equal those of the gateway', () => {
  const bodies = ['deploy/nginx.conf', 'deploy/Caddyfile', 'deploy/haproxy.cfg'].flatMap(path =>
    Array.from(
      readPage(path).matchAll(/(?:return (\d+) '|respond \S+ `|string ')(\{.*\})['`]/g),
      ([, status, body]) => ({
        status: status === undefined ? undefined : Number(status),
        error: JSON.parse(body!).error as { message: string; type: string; param: null; code: ErrorCode },
      }),
    ),
  )
  expect(bodies.map(({ error }) => error.code)).toEqual([
    'server_shutdown',
    'request_too_large',
    'headers_too_large',
    'database_unavailable',
    'database_unavailable',
  ])
  for (const { status, error } of bodies) {
    const row = errorTable[error.code]
    expect(error).toEqual({ message: row.message, type: row.type, param: null, code: error.code })
    if (status !== undefined) expect(status).toBe(row.status)
  }
})

test('the Caddyfile passes streams and long answers, and checks readiness', () => {
  const text = readPage('deploy/Caddyfile')
  expect(text.match(/\{/g)).toHaveLength(text.match(/\}/g)!.length)
  expect(Number(/^\s*response_header_timeout (\d+)s$/m.exec(text)![1])).toBeGreaterThan(totalS)
  expect(text).toMatch(/^\s*flush_interval -1$/m)
  expect(text).toMatch(/^\s*header_up Host \{upstream_hostport\}$/m)
  expect(text).toMatch(/^\s*health_uri \/readyz$/m)
  for (const [name] of gateways) expect(text).toContain(`${name}:${defaults.server.port}`)
})

test('haproxy.cfg passes long answers, checks readiness, and repeats only what was not sent', () => {
  const text = readPage('deploy/haproxy.cfg')
  const argumentsOf = (name: string) => new RegExp(`^\\s*${name} (.+)$`, 'm').exec(text)?.[1]
  for (const name of ['timeout client', 'timeout server'])
    expect(Number.parseInt(argumentsOf(name)!, 10), name).toBeGreaterThan(totalS)
  expect(argumentsOf('retry-on')).toBe('conn-failure')
  expect(argumentsOf('http-request set-header X-Forwarded-For')).toBe('%[src]')
  expect(argumentsOf('http-check send')).toContain('uri /readyz')
  const { inter, fall } = /inter (?<inter>\d+)s fall (?<fall>\d+)/.exec(argumentsOf('default-server')!)!.groups!
  expect(Number(inter) * Number(fall)).toBeLessThan(defaults.server.drainDelaySeconds)
  const nodes = gateways.map(([name]) => `${name} ${name}:${defaults.server.port}`)
  expect([...text.matchAll(/^ {2}server (.+)$/gm)].map(([, server]) => server)).toEqual([...nodes, ...nodes])
})

test('nginx and HAProxy hash over every place of a key', () => {
  const [nginx, haproxy] = [readPage('deploy/nginx.conf'), readPage('deploy/haproxy.cfg').toLowerCase()]
  for (const name of ['authorization', 'x-api-key', 'api-key', 'x-goog-api-key']) {
    expect(credentialOf([name, name === 'authorization' ? 'Bearer key' : 'key'])).toBe('key')
    expect(nginx).toMatch(new RegExp(`\\$http_${name.replaceAll('-', '_')}\\b`))
    expect(haproxy).toContain(`%[req.hdr(${name})]`)
  }
  // Clients of Google may send it in the address.
  expect(nginx).toContain('$arg_key;')
  expect(haproxy).toContain('%[url_param(key)]')
})

test('the files of Traefik pass streams and long answers, and check readiness', () => {
  const file = parse(readPage('deploy/traefik/traefik.yaml')) as { entryPoints: { web: object } }
  // Traefik then replaces what clients write to X-Forwarded-For.
  expect(file.entryPoints.web).not.toHaveProperty('forwardedHeaders')
  const { http } = parse(readPage('deploy/traefik/gateways.yaml'), { merge: true }) as Traefik
  expect(Number.parseInt(http.serversTransports.nodes.forwardingTimeouts.responseHeaderTimeout, 10)).toBeGreaterThan(
    totalS,
  )
  expect(http.middlewares.unsent.retry).toMatchObject({
    status: ['503'],
    retryNonIdempotentMethod: true,
    maxRequestBodyBytes: defaults.server.bodyLimitBytes + 1_048_576,
  })
  for (const { loadBalancer } of Object.values(http.services)) {
    expect(loadBalancer.servers).toEqual(gateways.map(([name]) => ({ url: `http://${name}:${defaults.server.port}` })))
    expect(loadBalancer).toMatchObject({
      passHostHeader: false,
      healthCheck: { path: '/readyz', interval: '1s' },
      responseForwarding: { flushInterval: '-1ms' },
    })
  }
})

test('switchyard.service starts the gateway with bin/switchyard, with variables that are read and time to drain', () => {
  const entries = readPage('deploy/switchyard.service')
    .split('\n')
    .filter(line => line !== '' && !line.startsWith('#') && !line.startsWith('['))
    .map(line => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)] as const)
  const unit = new Map(entries)
  expect(unit.get('ExecStart')).toBe('/opt/switchyard/bin/switchyard start')
  expect(Number(unit.get('TimeoutStopSec'))).toBe(drainAndMoreS)
  expect(unit.get('KillMode')).toBe('mixed')
  const variablesSet = entries.filter(([name]) => name === 'Environment').map(([, value]) => value.split('=')[0]!)
  expect(variablesSet.filter(name => !variables.includes(name))).toEqual([])
})

test('pages name the archive that npm run build writes', () => {
  const { version } = JSON.parse(readPage('package.json')) as { version: string }
  const pages = ['docs/operating.md']
  const named = pages.flatMap(path => [...readPage(path).matchAll(/switchyard-\d\S*?tgz/g)].map(([name]) => name))
  expect(new Set(named)).toEqual(new Set([`switchyard-${version}.tgz`]))
})

/** Returns the directory in which the image keeps its data. */
function dataDirectory(): string {
  return /SWITCHYARD_DATA=(\S+)/.exec(readFileSync(`${root}deploy/Dockerfile`, 'utf8'))![1]!
}

/** Returns each directive of an nginx configuration with its arguments. Throws if a block or a directive is not closed. */
function directivesOf(text: string): string[][] {
  const found: string[][] = []
  let depth = 0
  let words: string[] = []
  for (const [token] of text.matchAll(/#.*|"[^"]*"|'[^']*'|[{};]|[^\s{};]+/g)) {
    if (token.startsWith('#')) continue
    if (token === ';' || token === '{') {
      if (words.length === 0) throw new Error(`A ${token} ends nothing, after ${found.at(-1)?.join(' ')}.`)
      found.push(words)
      words = []
      if (token === '{') depth += 1
    } else if (token === '}') {
      if (words.length > 0) throw new Error(`There is no ; after ${words.join(' ')}.`)
      depth -= 1
    } else words.push(token)
  }
  if (depth !== 0 || words.length > 0) throw new Error('A block or a directive is not closed.')
  return found
}
