// The server of the page.
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'

const files = {
  '/': ['text/html', 'shop/index.html'],
  '/shop.js': ['text/javascript', 'shop/shop.js'],
  '/library.js': ['text/javascript', 'node_modules/@segment/analytics-next/dist/umd/index.js'],
}

/** Serves the page on a free port. The page sends its calls to the collector. */
export async function serve(collector) {
  const server = createServer(async (request, response) => {
    const [type, name] = files[request.url] ?? []
    if (!name) return response.writeHead(404).end()
    const text = await readFile(new URL(name, import.meta.url), 'utf8')
    response.writeHead(200, { 'Content-Type': `${type}; charset=utf-8` }).end(text.replace('{{collector}}', collector))
  })
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening))
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => server.close() }
}
