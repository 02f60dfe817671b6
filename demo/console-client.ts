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

async function call(origin: string, method: string, path: string, body?: object, cookie?: string): Promise<Response> {
  const response = await fetch(`${origin}/console/api/${path}`, {
    method,
    headers: {
      'sec-fetch-site': 'same-origin',
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...(cookie !== undefined && { cookie }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}: ${await response.text()}`)
  return response
}
