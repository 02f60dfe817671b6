// Compares the texts in the sources of the console with the files of its other languages: `npm run texts` adds what is new to each
// file, without a translation, and removes what is no longer used.
import {
  readFile,
  readSources,
  translatedLanguages,
  translationsOf,
  withTexts,
  writeFile,
} from '../console/catalogs.ts'

const texts = await readSources()
for (const language of translatedLanguages()) {
  const content = readFile(language)
  const written = await withTexts(language, content, texts)
  if (written !== content) writeFile(language, written)
  const missing = Object.values(translationsOf(language, written)).filter(({ translation }) => translation === '')
  console.log(`${language}: ${texts.length} texts, ${missing.length} without a translation`)
}
