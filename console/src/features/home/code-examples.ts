export function baseUrl(): string {
  return `${location.origin}/v1`
}

/** A first chat request in three languages. Each runs as it stands, once the key is filled in. */
export function codeExamples(model: string, key = 'YOUR_KEY'): Readonly<Record<string, string>> {
  const url = baseUrl()
  const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hello!' }] })
  const [js, python] = [JSON.stringify(model), JSON.stringify(model)]
  return {
    curl: `curl ${url}/chat/completions \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '${body.replaceAll("'", "'\\''")}'`,
    JavaScript: `// npm install openai
import OpenAI from 'openai'

const client = new OpenAI({ baseURL: '${url}', apiKey: '${key}' })
const chat = await client.chat.completions.create({
  model: ${js},
  messages: [{ role: 'user', content: 'Hello!' }],
})
console.log(chat.choices[0].message.content)`,
    Python: `# pip install openai
from openai import OpenAI

client = OpenAI(base_url="${url}", api_key="${key}")
chat = client.chat.completions.create(
    model=${python},
    messages=[{"role": "user", "content": "Hello!"}],
)
print(chat.choices[0].message.content)`,
  }
}
