// Sets the colour scheme before the first paint. A file of its own, because the content security policy forbids inline scripts.
;(() => {
  let chosen = null
  try {
    chosen = localStorage.getItem('switchyard-scheme')
  } catch {
    // Browsers that block storage get the scheme of the system.
  }
  const isDark = chosen === 'dark' || (chosen !== 'light' && matchMedia('(prefers-color-scheme: dark)').matches)
  document.documentElement.setAttribute('data-mantine-color-scheme', isDark ? 'dark' : 'light')
})()
