import { setTimeout as delay } from 'node:timers/promises'

/** A person who is signed in to the console's API. */
export interface ConsoleClient {
  get<T>(path: string): Promise<T>
  send<T>(method: 'POST' | 'PUT' | 'PATCH', path: string, body?: object): Promise<T>
}

/** The token of the link is shown after `#`. */
export type Entrance = { readonly path: 'welcome' | 'join'; readonly link: string; readonly password: string }

/** Sets the password of a person with a link, and signs in. */
export async function enterConsole(origin: string, { path, link, password }: Entrance): Promise<ConsoleClient> {
  const token = new URL(link).hash.slice(1)
  const entered = await call(origin, 'POST', path, { token, password })
  const cookie = entered.headers.getSetCookie()[0]!.split(';')[0]!
  const read = async <T>(method: string, address: string, body?: object) =>
    (await call(origin, method, address, body, cookie)).json() as Promise<T>
  return {
    get: address => read('GET', address),
    send: (method, address, body = {}) => read(method, address, body),
  }
}

/** A busy machine can keep the database from answering in time. Nothing was done then, and the request can be sent again. */
const TRIES_MAX = 30

async function call(origin: string, method: string, path: string, body?: object, cookie?: string): Promise<Response> {
  for (let tries = 1; ; tries++) {
    const response = await fetch(`${origin}/console/api/${path}`, {
      method,
      headers: {
        'sec-fetch-site': 'same-origin',
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(cookie !== undefined && { cookie }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    if (response.ok) return response
    const text = await response.text()
    if (response.status !== 503 || tries === TRIES_MAX)
      throw new Error(`${method} ${path} answered ${response.status}: ${text}`)
    await delay(1_000)
  }
}
