// CommonJS packages in a browser, as a bundler would put them there. PACKAGES: {file: function(exports, require, module)}; MAINS: {name: file}.
const packages = PACKAGES;
const mains = MAINS;
const loaded = {};

function resolve(from, name) {
  if (!name.startsWith(".")) return mains[name];
  const parts = from.split("/").slice(0, -1);
  for (const part of name.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== ".") parts.push(part);
  }
  return [parts.join("/"), `${parts.join("/")}.js`, `${parts.join("/")}/index.js`].find((file) => file in packages);
}

function load(file) {
  if (!(file in loaded)) {
    const module = (loaded[file] = { exports: {} });
    packages[file](module.exports, (name) => load(resolve(file, name)), module);
  }
  return loaded[file].exports;
}

globalThis.loadPackage = (name) => load(mains[name]);
