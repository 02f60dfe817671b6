import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const migrations = readdirSync('migrations').filter(name => name > '0012')

// 0006 gives the gateway role its rights by these lists. A migration that wrote a list out again would take back what
// another one added before it.
test.each(migrations)('%s adds to the lists of rights and replaces none', name => {
  const text = readFileSync(`migrations/${name}`, 'utf8')
  for (const list of ['money_tables', 'money_functions', 'desk_functions', 'desk_tables']) {
    // What takes from a list begins with it, too.
    if (!text.includes(`REPLACE FUNCTION ${list}()`)) continue
    expect(text, `Begin the new list with "${list}() ||", as 0012_operator.sql does.`).toMatch(
      new RegExp(`${list}\\(\\) \\|\\||unnest\\(${list}\\(\\)\\)`),
    )
  }
})
